"""Kernels of a CUDA program are actions of their own, which programs share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from modelbuild.step import Step
from modelbuild_rules.backends.cuda.steps import (
    compile,
    generate_code,
    interface,
    kernel,
    link,
    wrapper,
)
from tests.program_build import program_build
from tests.rules.backends.cuda.conftest import Lowering
from tests.workspace_builder import Workspace

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cuda")]

MODEL = """import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, channels=32):
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, padding=1)
        self.other = nn.Conv2d(32, channels, 3, padding=1)

    def forward(self, x):
        return torch.tanh(self.other(torch.relu(self.stem(x))).amax((2, 3)))


def wide():
    return Model(64)
"""
BACKENDS = '{ type = "cuda", min_block_size = 1 }, { type = "portable" }'
WIDE = """
[[torch_model]]
name = "wide_model"
entry = "net.py:wide"
inputs = [{ name = "x", shape = [1, 3, 16, 16], dtype = "float32" }]

[[pte_program]]
name = "wide"
model = ":wide_model"
stack = ":stack"
device = ":device"
"""


def by_kind(statuses: Mapping[str, str], kind: str) -> dict[str, str]:
    """Return the statuses of a kind's actions, by the rests of their names."""
    named = {name.partition("#")[2]: status for name, status in statuses.items()}
    return {name.partition("p0:")[2]: status for name, status in named.items() if name.startswith(f"{kind}:")}


@pytest.mark.exhaustive
def test_programs_share_kernels(know_runtime: Callable[..., None], workspace: Workspace) -> None:
    build = program_build(BACKENDS, shape="[1, 3, 16, 16]") + WIDE
    workspace.write({"MODELBUILD.toml": "", "BUILD.toml": build, "net.py": MODEL})
    know_runtime(workspace.root, workspace.cache, "//:program")
    first = workspace.build("//:program").statuses
    kernels = by_kind(first, "kernel")
    assert len(kernels) > 2
    assert set(kernels.values()) == {"ran"}
    second = workspace.build("//:wide").statuses
    common = {name for name, status in by_kind(second, "kernel").items() if status == "cached"}
    assert common <= kernels.keys()
    assert any(name.startswith("triton_tem_fused_convolution") for name in common)
    assert "ran" in by_kind(second, "kernel").values()
    assert [*by_kind(second, "interface").values()] == ["cached"]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, padding=1)
        self.last = nn.Linear(32, 48)

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(self.last(torch.relu(self.stem(x)).mean((2, 3))), 1)


class Steps:
    """Runs steps in processes of their own: Inductor keeps state."""

    def __init__(self, child: Callable[[Callable[[], None]], int], folder: Path) -> None:
        self._child, self._folder = child, folder
        self._count = 0

    def __call__(self, step: Any, params: Any, inputs: Mapping[str, Any], *outputs: str) -> dict[str, Path]:
        """Return the outputs by name: a file if the name has a suffix, which is dropped, else a folder."""
        self._count += 1
        made = {each.partition(".")[0]: self._folder / str(self._count) / each for each in outputs}
        for path in made.values():
            (path.parent if path.suffix else path).mkdir(parents=True, exist_ok=True)
        given = {name: tuple(paths) if isinstance(paths, list) else (paths,) for name, paths in inputs.items()}
        assert self._child(lambda: step.run(Step(params, given, made, self._folder))) == 0
        return made


@pytest.mark.exhaustive
def test_a_library_is_the_same_in_one_process(
    lowering: Lowering, cpp_runtime: Path, child: Callable[[Callable[[], None]], int], tmp_path: Path
) -> None:
    program = torch.export.export(Net().eval(), (torch.rand(4, 3, 16, 16),))
    lowered = lowering(program, [lowering.cuda(), lowering.PORTABLE])
    partition = lowered.folder / "partitions" / lowered.plan[0]["id"] / "program"
    attributes = {"capabilities": [86], "target": "x86_64-linux-gnu.2.28", "precision": "fp32"}
    lower, run = {"attributes": attributes}, Steps(child, tmp_path)
    code = run(generate_code, lower, {"program": partition}, "code", "requests", "plan.json", "wrapper.cpp")
    requests = sorted(code["requests"].iterdir())
    kernels = [run(kernel, attributes, {"request": each}, "kernel")["kernel"] for each in requests]
    compiled = run(wrapper, attributes, {"wrapper": code["wrapper"]}, "object.o")["object"]
    common = run(interface, attributes, {}, "interface")["interface"]
    parts = {"code": code["code"], "wrapper": compiled, "interface": common}
    parts |= {"kernels": kernels, "runtime": cpp_runtime}
    by_actions = run(link, attributes, parts, "code")["code"]
    whole = run(compile, lower, {"program": partition, "runtime": cpp_runtime}, "code")["code"]
    assert contents(by_actions) == contents(whole)


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder by their paths."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
