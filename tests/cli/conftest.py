"""A workspace in a temporary folder, and the command line run in it as a user runs it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class World:
    """`root` is the workspace; each world has a separate cache unless one is given."""

    def __init__(self, root: Path, cache: Path) -> None:
        self.root = root
        self.cache = cache
        root.mkdir(parents=True, exist_ok=True)

    def let_go(self, build: subprocess.Popen[str]) -> str:
        """Make a file `go` in the temporary folder of each action of a build until it ends. Return its stderr."""
        while build.poll() is None:
            for home in (self.cache / "tmp").glob("build-*/*/.home"):
                with suppress(FileNotFoundError):
                    (home / "go").touch()
            time.sleep(0.01)
        return build.communicate()[1]

    def write(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace a text that must be there."""
        path = self.root / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def copy(self, folder: Path) -> World:
        """Return a copy of the workspace and the cache below a folder; nothing is laid out."""
        shutil.copytree(self.root, folder / "workspace", ignore=shutil.ignore_patterns("modelbuild-out"))
        shutil.copytree(self.cache, folder / "cache")
        return World(folder / "workspace", folder / "cache")

    def environment(self, **more: str) -> dict[str, str]:
        return {**os.environ, "MODELBUILD_CACHE_DIR": str(self.cache), "COLUMNS": "200", **more}

    def run(self, *arguments: str, cwd: Path | None = None, **environment: str) -> Ended:
        ended = subprocess.run(
            [sys.executable, "-m", "modelbuild", *arguments],
            cwd=cwd or self.root,
            env=self.environment(**environment),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=600,
        )
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    def build(self, *arguments: str, **environment: str) -> dict[str, str]:
        """Build successfully; return each action's status by its id."""
        ended = self.run("build", *arguments, "--json", **environment)
        assert ended.code == 0, ended.err + ended.out
        return {action["id"]: action["status"] for action in ended.json["actions"]}

    def ran(self, *arguments: str, **environment: str) -> set[str]:
        """Return the ids of the actions that a build ran."""
        return {name for name, status in self.build(*arguments, **environment).items() if status == "ran"}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "workspace", tmp_path / "cache")


@pytest.fixture(scope="session")
def foreign_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a .pte from executorch's own exporter: linear and relu in XNNPACK, nonzero outside."""
    import torch
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nonzero(torch.relu(self.layer(x)).reshape(-1))

    exported = torch.export.export(Model().eval(), (torch.ones(2, 8),))
    path = tmp_path_factory.mktemp("program") / "theirs.pte"
    with path.open("wb") as file:
        to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()]).to_executorch().write_to_file(file)
    return path


@pytest.fixture(scope="session")
def new_world(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], World]:
    """Makes worlds that tests may share."""

    def make() -> World:
        folder = tmp_path_factory.mktemp("world")
        return World(folder / "workspace", folder / "cache")

    return make


# The classifier of examples/ with weights from a file, for XNNPACK (two partitions) and for TensorRT.
CLASSIFIER = """
[[torch_model]]
name = "model"
entry = "classifier.py:Classifier"
srcs = ["classifier.py"]
weights = "classifier.safetensors"
inputs = [{ name = "image", shape = [1, 3, 64, 64], dtype = "float32", range = [0, 255] }]

[[pte_program]]
name = "xnnpack"
model = ":model"
stack = ":xnnpack_stack"
device = ":cpu"

[[pte_program]]
name = "tensorrt"
model = ":model"
stack = ":tensorrt_stack"
device = ":gpu"

[[backend_stack]]
name = "xnnpack_stack"
backends = [{ type = "xnnpack" }, { type = "portable" }]

[[backend_stack]]
name = "tensorrt_stack"
backends = [{ type = "tensorrt", workspace_size = "64MiB" }, { type = "portable" }]

[[device_target]]
name = "cpu"
arch = "x86_64"

[[device_target]]
name = "other"
arch = "aarch64"

[[device_target]]
name = "gpu"
arch = "x86_64"
compute_capability = ["8.6"]
"""


def classifier_weights() -> dict[str, np.ndarray]:
    """Weights of the classifier, the same at each call."""
    draw = np.random.default_rng(0).standard_normal
    shapes = {"features.0": (16, 3, 3, 3), "features.2": (32, 16, 3, 3), "head": (10, 32)}
    weights = {f"{layer}.weight": draw(shape, dtype=np.float32) for layer, shape in shapes.items()}
    return weights | {f"{layer}.bias": draw(shape[0], dtype=np.float32) for layer, shape in shapes.items()}


def classifier_workspace(examples: Path, world: World) -> World:
    """Copy examples/ to a world, with the package //classifier added to it."""
    shutil.copytree(
        examples, world.root, dirs_exist_ok=True, ignore=shutil.ignore_patterns("modelbuild-out", "__pycache__")
    )
    world.write({"classifier/BUILD.toml": CLASSIFIER})
    shutil.copy(examples / "models/classifier.py", world.root / "classifier")
    save_file(classifier_weights(), world.root / "classifier/classifier.safetensors")
    return world


@pytest.fixture(scope="session")
def built_classifier(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> World:
    """Return a world in which //classifier:xnnpack was built with two jobs. Tests change copies of it."""
    folder = tmp_path_factory.mktemp("classifier")
    world = classifier_workspace(repository / "examples", World(folder / "workspace", folder / "cache"))
    assert set(world.build("//classifier:xnnpack", "--jobs=2").values()) == {"ran"}
    return world


@pytest.fixture
def classifier(built_classifier: World, tmp_path: Path) -> World:
    """Return a copy of the world in which //classifier:xnnpack was built."""
    return built_classifier.copy(tmp_path)


@pytest.fixture
def example_rules(repository: Path) -> dict[str, str]:
    """Return the rule package of docs/rules.md, file by file, and a MODELBUILD.toml that names it."""
    import re

    text = (repository / "docs/rules.md").read_text()
    found = dict(re.findall(r"^`(tools/rules/[^`]+)`.*?\n\n```python\n(.*?)```", text, re.DOTALL | re.MULTILINE))
    assert len(found) == 3
    return {**found, "tools/rules/steps/__init__.py": "", "MODELBUILD.toml": 'rules = ["//tools/rules"]\n'}
