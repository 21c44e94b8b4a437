"""After one change, exactly the actions that it can affect run again, in a program of three backends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.program_build import program_build
from tests.workspace_builder import Workspace

pytestmark = [pytest.mark.exhaustive, pytest.mark.slow, pytest.mark.xdist_group("mixed")]

# TensorRT has the stem, CUDA the product between two sums, and a processor the arc cosine.
MODEL = """
import torch
from torch import nn


def filled(seed, *shape):
    return nn.Parameter(torch.randn(shape, generator=torch.Generator().manual_seed(seed)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.activation = filled(1, 8, 3, 3, 3), nn.ReLU()
        self.scale = filled(2, 8)

    def forward(self, x):
        x = self.activation(nn.functional.conv2d(x, self.stem)).mean((2, 3))
        x = torch.cumsum(torch.cumsum(x, 1) * self.scale, 1)
        return torch.acos(x)
"""
ELSEWHERE = '"aten.acos.default", "aten.asin.default"'
BACKENDS = f"""{{ type = "tensorrt", min_block_size = 1, exclude_ops = [
        "aten.cumsum.default", "aten.mul.Tensor", {ELSEWHERE},
    ] }},
    {{ type = "cuda", min_block_size = 1, exclude_ops = [{ELSEWHERE}] }},
    "portable\""""

EXPORT, LOWER, EMIT = {"export"}, {"partition", "weights"}, {"emit"}
ENGINE = {"compile:p0"}  # TensorRT-RTX's engines contain their weights
STORE = {"store:p1"}
WRAPPED = {"compile:p1", "wrapper:p1", "link:p1"}


class Row(NamedTuple):
    """A change, the actions that run apart from kernels and choices, and whether some of these run."""

    change: Callable[[Workspace], None]
    ran: set[str]
    kernels: bool = False


def edited(name: str, old: str, new: str) -> Callable[[Workspace], None]:
    return lambda workspace: workspace.edit(name, old, new)


TABLE = {
    "nothing": Row(lambda workspace: None, set()),
    "weights of the engine": Row(edited("net.py", "filled(1", "filled(3"), EXPORT | {"weights"} | ENGINE | EMIT),
    "weights of the library": Row(edited("net.py", "filled(2", "filled(3"), EXPORT | {"weights"} | STORE | EMIT),
    "layer of the engine": Row(edited("net.py", "nn.ReLU()", "nn.Sigmoid()"), EXPORT | LOWER | ENGINE | EMIT),
    "layer of the library": Row(
        edited("net.py", "torch.cumsum(torch.cumsum(x, 1)", "torch.cumsum(torch.cumsum(x * self.scale, 1)"),
        EXPORT | LOWER | WRAPPED | STORE | EMIT,
        kernels=True,
    ),
    "operator on the processor": Row(edited("net.py", "torch.acos", "torch.asin"), EXPORT | LOWER | EMIT),
}


@pytest.fixture(scope="module")
def built(know_runtime: Callable[..., None], tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    workspace = Workspace(tmp_path_factory.mktemp("mixed"))
    build = program_build(BACKENDS, shape="[2, 3, 16, 16]")
    workspace.write({"MODELBUILD.toml": "", "BUILD.toml": build, "net.py": MODEL})
    know_runtime(workspace.root, workspace.cache, "//:program")
    statuses = steps(workspace)
    assert {"compile:p0", "compile:p1", "link:p1"} <= statuses.keys(), [*statuses]
    return workspace


def steps(workspace: Workspace) -> dict[str, str]:
    """Build the program; return the statuses of its actions, by the part of their ids after the target."""
    statuses: dict[str, str] = workspace.build("//:program", "--jobs=2").statuses
    return {id.partition("#")[2]: status for id, status in statuses.items()}


@pytest.mark.parametrize("case", TABLE)
def test_reruns_after_a_change(built: Workspace, case: str, tmp_path: Path) -> None:
    workspace = built.copy(tmp_path)
    row: Any = TABLE[case]
    row.change(workspace)
    ran = {name for name, status in steps(workspace).items() if status == "ran"}
    kernels = {name for name in ran if name.startswith("kernel:")}
    assert ran - kernels == row.ran
    assert bool(kernels) == row.kernels
