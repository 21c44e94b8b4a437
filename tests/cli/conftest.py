"""Workspaces in temporary folders, models that tests of the command line share, and a rule package."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.stages import Stages
from tests.workspace_builder import Workspace


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
def new_workspace(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Workspace]:
    """Makes workspaces that tests may share."""
    return lambda: Workspace(tmp_path_factory.mktemp("workspace"))


# The classifier of examples/ with weights from a file, for XNNPACK (two partitions) and for TensorRT.
CLASSIFIER = """
[[torch_model]]
name = "model"
entry = "classifier.py:Classifier"
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
backends = ["xnnpack", "portable"]

[[backend_stack]]
name = "tensorrt_stack"
backends = [{ type = "tensorrt", workspace_size = "64MiB" }, "portable"]

[[device_target]]
name = "cpu"
arch = "x86_64"

[[device_target]]
name = "other"
arch = "aarch64"

[[device_target]]
name = "gpu"
arch = "x86_64"
compute_capabilities = ["8.6"]
"""


def classifier_weights() -> dict[str, np.ndarray]:
    """Weights of the classifier, the same at each call."""
    draw = np.random.default_rng(0).standard_normal
    shapes = {"features.0": (16, 3, 3, 3), "features.2": (32, 16, 3, 3), "head": (10, 32)}
    weights = {f"{layer}.weight": draw(shape, dtype=np.float32) for layer, shape in shapes.items()}
    return weights | {f"{layer}.bias": draw(shape[0], dtype=np.float32) for layer, shape in shapes.items()}


def classifier_workspace(examples: Path, workspace: Workspace) -> Workspace:
    """Copy examples/ to a workspace, with the package //classifier added to it."""
    workspace.copy_in(examples)
    workspace.write({"classifier/BUILD.toml": CLASSIFIER})
    shutil.copy(examples / "models/classifier.py", workspace.root / "classifier")
    save_file(classifier_weights(), workspace.root / "classifier/classifier.safetensors")
    return workspace


@pytest.fixture(scope="session")
def built_classifier(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Return a workspace in which //classifier:xnnpack was built with two jobs. Tests change copies of it."""
    workspace = classifier_workspace(repository / "examples", Workspace(tmp_path_factory.mktemp("classifier")))
    assert set(workspace.build("//classifier:xnnpack", "--jobs=2").statuses.values()) == {"ran"}
    return workspace


@pytest.fixture
def classifier(built_classifier: Workspace, tmp_path: Path) -> Workspace:
    """Return a copy of the workspace in which //classifier:xnnpack was built."""
    return built_classifier.copy(tmp_path)


@pytest.fixture
def example_rules(repository: Path) -> dict[str, str]:
    """Return the rule package of docs/how-to/custom-rule.md, file by file, and a MODELBUILD.toml that names it."""
    import re

    text = (repository / "docs/how-to/custom-rule.md").read_text()
    found = dict(re.findall(r"^`(tools/rules/[^`]+)`.*?\n\n```python\n(.*?)```", text, re.DOTALL | re.MULTILINE))
    assert len(found) == 3
    return {**found, "tools/rules/steps/__init__.py": "", "MODELBUILD.toml": 'rules = ["//tools/rules"]\n'}


@pytest.fixture
def stages(workspace: Workspace, tmp_path: Path) -> Stages:
    """A workspace with a rule of stages."""
    folder = tmp_path / "signals"
    folder.mkdir()
    return Stages(workspace, folder)
