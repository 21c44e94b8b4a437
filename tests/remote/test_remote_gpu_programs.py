"""Programs of TensorRT, CUDA and portable kernels that workers alone build, as they are built here."""

from __future__ import annotations

import ast
import json
import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.program_build import program_build
from tests.workspace_builder import Workspace

pytestmark = pytest.mark.xdist_group("cuda")

MODEL = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x):
        waves = torch.sin(torch.relu(self.inner(x)))
        return waves, torch.nonzero(waves.sum(dim=1) > 2)
"""
BUILD = program_build(
    """{ type = "tensorrt", min_block_size = 1, exclude_ops = ["aten.sin.default"] },
    { type = "cuda", min_block_size = 1, exclude_ops = ["aten.nonzero.default"] },
    { type = "portable" }""",
    shape="[4, 8]",
)

# The steps whose outputs the fixture know_runtime puts into the cache, and all steps.
KNOWN = {"cpp_runtime", "interface"}
STEPS = KNOWN.union(("export", "weights", "partition", "compile", "kernel", "wrapper", "link", "store", "emit"))


class Programs(Workspace):
    def workers(self, target: str) -> dict[str, str]:
        """Return the place of each required action, by its id; '' for this machine."""
        told = self.run("explain", target, "--json").json["actions"]
        return {each["action"]: (each["place"] or {}).get("worker", "") for each in told}

    def outputs(self, config: str) -> dict[str, bytes]:
        """Return all laid out files, by name."""
        return {path.name: path.read_bytes() for path in (self.root / "modelbuild-out" / config).rglob("*.*")}

    def only_remotely(self, address: str, python: Path | str) -> None:
        """Run every action on workers, including downloads, and none here."""
        self.add("MODELBUILD.toml", f'[remote]\nexecutor = "{address}"\npython = "{python}"\n')
        self.add("MODELBUILD.toml", '[remote.strategy]\n"*" = ["remote"]\ndownload = ["remote"]\n')


def steps_of(actions: Iterable[str]) -> set[str]:
    """Return the steps of actions, by their ids."""
    return {name.partition("#")[2].partition(":")[0] for name in actions}


def backends(report: bytes) -> dict[str, set[str]]:
    """Return the operators of each backend, from a delegation.json."""
    told = json.loads(report)
    return {b: {node["op"] for node in told["nodes"] if node["backend"] == b} for b in told["totals"]}


@pytest.mark.slow
@pytest.mark.exhaustive
def test_workers_alone_make_a_program_of_three_backends(farm: Any, know_runtime: Any, tmp_path: Path) -> None:
    files = {"MODELBUILD.toml": "", "BUILD.toml": BUILD, "net.py": MODEL}
    made = [Programs(tmp_path / name, files) for name in ("here", "far/there")]
    for workspace in made:
        workspace.cache.mkdir()
    here, there = made
    there.only_remotely(farm.address, sys.executable)
    for workspace in made:
        know_runtime(workspace.root, workspace.cache, "//:program")
        statuses = workspace.build("//:program", "-j1").statuses  # a compilation takes gigabytes
        assert steps_of(name for name, status in statuses.items() if status != "ran") == KNOWN
    workers = there.workers("//:program")
    assert steps_of(name for name, worker in workers.items() if not worker) == KNOWN
    assert steps_of(workers) == STEPS
    assert there.outputs("device") == here.outputs("device")
    assert there.outputs("device").keys() == {"program.pte", "delegation.json", "signature.json"}
    ops = backends(there.outputs("device")["delegation.json"])
    assert "aten.sin.default" in ops["cuda"]
    assert "aten.nonzero.default" in ops["portable"]
    assert ops["tensorrt"]


def fetching_python(folder: Path) -> tuple[Path, list[Path]]:
    """Return a Python for workers with this machine's pip configuration, and the folders of wheels and certificates
    that it needs."""
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    settings = {}
    for line in listed.stdout.splitlines():
        key, _, value = line.partition("=")
        settings[f"PIP_{key.rpartition('.')[2].upper().replace('-', '_')}"] = " ".join(ast.literal_eval(value).split())
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in settings.items())
    program = folder / "worker/python"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\n{exports}exec {shlex.quote(sys.executable)} "$@"\n')
    program.chmod(0o700)
    words = [Path(word) for value in settings.values() for word in value.split()]
    return program, [program.parent, *(word for word in words if word.is_absolute() and word.exists())]


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.timeout(7200)  # 25 minutes on two cores with other work
def test_workers_alone_make_the_example_detector(new_farm: Any, repository: Path, tmp_path: Path) -> None:
    target = "//models:detector_trt_cuda"
    made = [Programs(tmp_path / name) for name in ("here", "far/there")]
    for workspace in made:
        workspace.copy_in(repository / "examples")
    here, there = made
    python, folders = fetching_python(tmp_path)
    there.only_remotely(new_farm(*folders).address, python)
    for workspace in (there, here):
        assert set(workspace.build(target, "-j1").statuses.values()) == {"ran"}
    workers = there.workers(target)
    assert all(workers.values()), workers
    assert {"download", "export", "partition", "cpp_runtime", "emit"} < {name.partition("#")[2] for name in workers}
    assert not any(here.workers(target).values())
    assert there.outputs("rtx") == here.outputs("rtx")
    ops = backends(there.outputs("rtx")["delegation.json"])
    assert ops.keys() == {"tensorrt", "cuda", "portable"}
    assert "aten.nonzero.default" in ops["portable"]
