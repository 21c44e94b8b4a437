"""Methods of a program on a CUDA stack: they have their weights and their state in common, run on the emulator."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from modelbuild.step import Step
from modelbuild_rules.program.steps import emit
from modelbuild_rules.program.steps.linking import shared_state
from modelbuild_rules.program.steps.linking.link import read_file
from modelbuild_runtime.files.schema import KernelTypes

HERE = Path(__file__).parent
LENGTH, WIDTH = 8, 64
SUM = {"name": "sum", "dtype": "float32", "shape": [WIDTH]}
SIGNATURES: dict[str, Any] = {
    "prefill": {
        "inputs": [
            {"name": "x", "dtype": "float32", "shape": ["n", WIDTH], "dynamic": {"n": {"min": 2, "max": LENGTH}}},
        ],
        "outputs": [SUM],
    },
    "decode": {
        "inputs": [
            {"name": "x", "dtype": "float32", "shape": [1, WIDTH], "dynamic": {}},
            {"name": "position", "dtype": "int64", "shape": [1], "dynamic": {}},
        ],
        "outputs": [SUM],
    },
}

OUTSIDE = ("aten.index_copy.default", "aten.index_put.default")
"""Operators that leave the state outside of parts, if the backend excludes them."""

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cuda")]


class Sum(nn.Module):
    """Keeps what it has read; each call returns the sum over it. `decode` also has a weight of its own."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embed = nn.Linear(WIDTH, WIDTH)
        self.scale = nn.Parameter(torch.rand(WIDTH))
        self.register_buffer("kept", torch.full((LENGTH, WIDTH), 0.5))

    def call(self, x: Tensor, positions: Tensor) -> Tensor:
        kept = self.get_buffer("kept")
        kept.index_copy_(0, positions, self.embed(x))
        return kept.sum(0)

    def prefill(self, x: Tensor) -> Tensor:
        return self.call(x, torch.arange(x.shape[0]))

    def decode(self, x: Tensor, position: Tensor) -> Tensor:
        return self.call(x, position) * self.scale


def exported(method: str) -> Any:
    """Return a method of Sum(0) as a program."""
    module = Sum(0).eval()
    module.forward = getattr(module, method)
    if method == "prefill":
        rows = torch.export.Dim("n", min=2, max=LENGTH)
        return torch.export.export(module, (torch.rand(4, WIDTH),), dynamic_shapes={"x": {0: rows}})
    return torch.export.export(module, (torch.rand(1, WIDTH), torch.tensor([4])))


@pytest.fixture(params=[()])
def run_methods(request: pytest.FixtureRequest, lowering: Any, compile_to: Any, pieces: Path, tmp_path: Path) -> Any:
    """Compiles a program whose methods are Sum's, each with the number of its module, and makes calls of it. Its
    parameter is `exclude_ops` of the backend."""
    backends = [lowering.cuda(min_block_size=1, exclude_ops=request.param), lowering.PORTABLE]
    lowered = {method: lowering(exported(method), backends, shares_state=True) for method in ("prefill", "decode")}
    kernels: dict[str, Any] = {}
    compiled: dict[str, list[Path]] = {}
    for method, each in lowered.items():
        compiled[method] = [tmp_path / method / part["id"] / "compiled" for part in each.plan]
        for part in each.plan:
            kernels |= compile_to(each.folder / "partitions" / part["id"], tmp_path / method / part["id"])
    (pieces / "kernels.json").write_text(json.dumps(kernels))

    def emitted(modules: Mapping[str, int]) -> None:
        source = {method: method.split("_")[0] for method in modules}
        for method in lowered:
            (tmp_path / f"{method}.json").write_text(
                json.dumps({"version": 2, "methods": {method: SIGNATURES[method]}})
            )
        emit.run(
            Step(
                root=tmp_path,
                inputs={
                    "residual": tuple(lowered[source[method]].folder / "residual" for method in modules),
                    "report": tuple(lowered[source[method]].folder / "report.json" for method in modules),
                    "signature": tuple(tmp_path / f"{source[method]}.json" for method in modules),
                    "parts": tuple(folder for method in modules for folder in compiled[source[method]]),
                },
                outputs={
                    "pte": pieces / "program.pte",
                    "delegation": pieces / "delegation.json",
                    "signature": pieces / "signature.json",
                },
                params={
                    "partitions": {method: [part["id"] for part in lowered[source[method]].plan] for method in modules},
                    "modules": dict(modules),
                    "sidecars": {},
                },
            )
        )

    def run(modules: Mapping[str, int], *calls: tuple[str, Tensor, int | None]) -> list[Tensor]:
        emitted(modules)
        listed = [
            (
                method,
                {
                    "x": ("float32", x.tolist()),
                    **({} if position is None else {"position": ("int64", [position])}),
                },
            )
            for method, x, position in calls
        ]
        (pieces / "calls.json").write_text(json.dumps(listed))
        done = subprocess.run(
            [sys.executable, HERE / "emulator/run_methods.py", pieces],
            env={**os.environ, "LD_PRELOAD": str(pieces / "runtime/lib/libcudaem.so.13")},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        assert "WARNING" not in done.stderr
        return [torch.tensor(json.loads(line)) for line in done.stdout.splitlines()[-len(calls) :]]

    run.compiled = compiled  # type: ignore[attr-defined]
    run.pieces = pieces  # type: ignore[attr-defined]
    return run


def test_methods_of_one_module_have_one_state_and_their_weights_once(run_methods: Any) -> None:
    """decode sees what prefill wrote; a second module with equal weights has the same data, and a state of its own."""
    modules = {"prefill": 0, "decode": 0, "prefill_other": 1, "decode_other": 1}
    prompt, longer, token = torch.rand(3, WIDTH), torch.rand(5, WIDTH), torch.rand(1, WIDTH)
    calls = [
        ("prefill", prompt, None),
        ("decode", token, 3),
        ("decode_other", token, 3),
        ("prefill_other", longer, None),
        ("decode", token, 4),
        ("decode_other", token, 7),
    ]
    check_results(run_methods(modules, *calls), calls)
    check_sizes(run_methods)


@pytest.mark.exhaustive
@pytest.mark.parametrize("run_methods", [OUTSIDE], indirect=True)
def test_their_state_may_be_outside_of_the_parts(run_methods: Any) -> None:
    """The buffer is in memory of the CPU, and what parts compute in memory of the GPU."""
    calls = [("prefill", torch.rand(3, WIDTH), None), ("decode", torch.rand(1, WIDTH), 3)]
    check_results(run_methods({"prefill": 0, "decode": 0}, *calls), calls)


def test_a_state_on_the_cpu_has_its_arena_before_those_of_gpus(lowering: Any) -> None:
    backends = [lowering.cuda(min_block_size=1, exclude_ops=OUTSIDE), lowering.PORTABLE]
    made = lowering(exported("decode"), backends, shares_state=True)
    (plan,) = read_file(made.folder / "residual/program.pte")[0].execution_plan
    sizes = list(plan.non_const_buffer_sizes)
    assert len(sizes) == 4
    assert sizes[shared_state.ARENA] == 4 * LENGTH * WIDTH
    assert [each.buffer_idx for each in plan.non_const_buffer_device] == [3]
    tensors = [value.val for value in plan.values if value.val_type == KernelTypes.Tensor]
    named = {each.extra_tensor_info.fully_qualified_name: each for each in tensors if each.extra_tensor_info}
    (kept,) = (each for name, each in named.items() if name == "kept")
    assert kept.allocation_info.memory_id == shared_state.ARENA
    assert {each.allocation_info.memory_id for each in tensors if each.allocation_info} == {1, 2, 3}


def check_results(found: list[Tensor], calls: list[Any]) -> None:
    own, other = Sum(0).eval(), Sum(0).eval()
    with torch.no_grad():
        for result, (method, x, position) in zip(found, calls, strict=True):
            module = other if method.endswith("_other") else own
            expected = module.prefill(x) if position is None else module.decode(x, torch.tensor([position]))
            torch.testing.assert_close(result, expected, atol=1e-4, rtol=1e-4)


def check_sizes(run_methods: Any) -> None:
    """The program is as large as its parts without what they have in common."""
    named = {
        method: {each["key"]: each["file"] for each in json.loads((folder / "named.json").read_text())}
        for method, (folder,) in run_methods.compiled.items()
    }
    common = {key for key in named["prefill"].keys() & named["decode"].keys() if key.endswith("_constant")}
    sizes = sorted((run_methods.compiled["prefill"][0] / named["prefill"][key]).stat().st_size for key in common)
    assert sizes == [4 * WIDTH, 4 * LENGTH * WIDTH, 4 * WIDTH * WIDTH]  # bias, kept, weight
    written = (run_methods.pieces / "program.pte").stat().st_size
    parts = sum(file.stat().st_size for (folder,) in run_methods.compiled.values() for file in folder.iterdir())
    assert written < parts - sum(sizes) + 8192
