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

HERE = Path(__file__).parent
LENGTH, WIDTH = 8, 64
SUM = {"name": "sum", "dtype": "float32", "shape": [WIDTH]}
SIGNATURES: dict[str, Any] = {
    "prefill": {
        "version": 1,
        "inputs": [
            {"name": "x", "dtype": "float32", "shape": ["n", WIDTH], "dynamic": {"n": {"min": 2, "max": LENGTH}}},
        ],
        "outputs": [SUM],
    },
    "decode": {
        "version": 1,
        "inputs": [
            {"name": "x", "dtype": "float32", "shape": [1, WIDTH], "dynamic": {}},
            {"name": "position", "dtype": "int64", "shape": [1], "dynamic": {}},
        ],
        "outputs": [SUM],
    },
}

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


@pytest.fixture
def run_methods(lowering: Any, compile_to: Any, pieces: Path, tmp_path: Path) -> Any:
    """Compiles a program whose methods are Sum's, each with the number of its module, and makes calls of it."""
    lowered = {
        method: lowering(exported(method), [lowering.cuda()], several_methods=True, shares_state=True)
        for method in ("prefill", "decode")
    }
    kernels: dict[str, Any] = {}
    compiled = {}
    for method, each in lowered.items():
        (part,) = each.plan
        kernels |= compile_to(each.folder / "partitions" / part["id"], tmp_path / method)
        compiled[method] = tmp_path / method / "compiled"
    (pieces / "kernels.json").write_text(json.dumps(kernels))

    def emitted(modules: Mapping[str, int]) -> None:
        source = {method: method.split("_")[0] for method in modules}
        for method in lowered:
            (tmp_path / f"{method}.json").write_text(json.dumps(SIGNATURES[method]))
        emit.run(
            Step(
                root=tmp_path,
                inputs={
                    "residual": tuple(lowered[source[method]].folder / "residual" for method in modules),
                    "report": tuple(lowered[source[method]].folder / "report.json" for method in modules),
                    "signature": tuple(tmp_path / f"{source[method]}.json" for method in modules),
                    "parts": tuple(compiled[source[method]] for method in modules),
                },
                outputs={
                    "pte": pieces / "program.pte",
                    "delegation": pieces / "delegation.json",
                    "signature": pieces / "signature.json",
                },
                params={
                    "partitions": [f"{method}.p0" for method in modules],
                    "methods": list(modules),
                    "modules": list(modules.values()),
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
    found = run_methods(modules, *calls)
    own, other = Sum(0).eval(), Sum(0).eval()
    with torch.no_grad():
        for result, (method, x, position) in zip(found, calls, strict=True):
            module = other if method.endswith("_other") else own
            expected = module.prefill(x) if position is None else module.decode(x, torch.tensor([position]))
            torch.testing.assert_close(result, expected, atol=1e-4, rtol=1e-4)
    check_sizes(run_methods)


def check_sizes(run_methods: Any) -> None:
    """The program is as large as its parts without what they have in common."""
    named = {
        method: {each["key"]: each["file"] for each in json.loads((folder / "named.json").read_text())}
        for method, folder in run_methods.compiled.items()
    }
    common = {key for key in named["prefill"].keys() & named["decode"].keys() if key.endswith("_constant")}
    sizes = sorted((run_methods.compiled["prefill"] / named["prefill"][key]).stat().st_size for key in common)
    assert sizes == [4 * WIDTH, 4 * LENGTH * WIDTH, 4 * WIDTH * WIDTH]  # bias, kept, weight
    written = (run_methods.pieces / "program.pte").stat().st_size
    parts = sum(file.stat().st_size for folder in run_methods.compiled.values() for file in folder.iterdir())
    assert written < parts - sum(sizes) + 8192
