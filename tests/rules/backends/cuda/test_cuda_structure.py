"""A program is lowered without the values of its weights, and a second step adds them, as if it had had them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from modelbuild.step import Step, StepError
from modelbuild_rules.model.steps.calls.exported import write_calls
from modelbuild_rules.model.steps.calls.recorded import Call, Recording
from modelbuild_rules.model.steps.exported.program import load_structure, save_program
from modelbuild_rules.program.steps import partition, weights
from tests.rules.backends.cuda.conftest import CUDA, PORTABLE
from tests.rules.backends.cuda.test_cuda_storing import STRUCTURES, VALUES, Net, files

X = torch.ones(1, 3, 12, 12)
NAMES = ("residual", "partitions", "plan", "report", "notes")


class Lowerings:
    """The two ways of lowering a net, in a folder."""

    def __init__(self, module: nn.Module, folder: Path) -> None:
        self.folder = folder
        for name in ("program", "weights", "structure"):
            (folder / name).mkdir(parents=True)
        program = torch.export.export(module.eval(), (X,))
        save_program(program, folder / "program", folder / "weights", values=True)
        cuda = {**CUDA, "attributes": {**CUDA["attributes"], "exclude_ops": ["aten.atan2.default"]}}
        params = {"backends": [cuda, PORTABLE], "external_weights": False}
        self._step = Step(params, {"program": (folder / "program",)}, {}, folder)
        self.given = {**self._step.inputs, "weights": (folder / "weights",)}

    def structure(self) -> Path:
        outputs = {"structure": self.folder / "structure"}
        partition.run(replace(self._step, params={**self._step.params, "compared": True}, outputs=outputs))
        return self.folder / "structure"

    def outputs(self, step: Any, way: str, **inputs: Path) -> Mapping[str, bytes]:
        """Run a step with weights; return the files of its outputs."""
        made = self.folder / way
        for name in ("residual", "partitions"):
            (made / name).mkdir(parents=True)
        given = {**self.given, **{name: (path,) for name, path in inputs.items()}}
        step.run(replace(self._step, inputs=given, outputs={name: made / name for name in NAMES}))
        return files(made)


EQUAL = ("random", "zero", "special", "equal", "statistics", "no dimension")


QUICK = ("special", "statistics", "tied")
"""The quick tests compare these ways only."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in QUICK else pytest.mark.exhaustive)
        for name in (*EQUAL, "integers", "booleans", *STRUCTURES)
    ],
)
def test_both_ways_give_the_same_files(name: str, tmp_path: Path) -> None:
    one = Lowerings(Net(), tmp_path / "one")
    other = Lowerings(Net({**VALUES, **STRUCTURES}[name]), tmp_path / "other")
    assert (files(one.folder / "program") == files(other.folder / "program")) == (name in EQUAL)
    structure = other.structure()
    assert not (structure / "needs_values").exists()
    if name in EQUAL:
        assert files(one.structure()) == files(structure)
    assert other.outputs(weights, "two steps", structure=structure) == other.outputs(partition, "one step")


class Outside(nn.Module):
    """A weight that no partition takes."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.rand(12, 12))

    def forward(self, x: Tensor) -> Tensor:
        return torch.atan2(torch.tanh(torch.sin(torch.cos(torch.relu(torch.exp(x))))), self.table)


class State(Outside):
    """A buffer that a call changes outside partitions, whose first value is kept unless it is zero."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.ones(12))

    def forward(self, x: Tensor) -> Tensor:
        self.calls.copy_(torch.atan2(self.calls, self.calls))
        return super().forward(x)


def test_a_weight_outside_partitions_is_filled_in(tmp_path: Path) -> None:
    made = Lowerings(Outside(), tmp_path)
    structure = made.structure()
    assert not (structure / "needs_values").exists()
    assert made.outputs(weights, "two steps", structure=structure) == made.outputs(partition, "one step")


def test_weights_that_a_lowering_reorders_are_reordered_again(tmp_path: Path) -> None:
    made = Lowerings(Net(lambda net: net.stem.to(memory_format=torch.channels_last)), tmp_path)
    structure = made.structure()
    assert not (structure / "needs_values").exists()
    assert json.loads((structure / "recipes.json").read_text())["calls"]
    assert made.outputs(weights, "two steps", structure=structure) == made.outputs(partition, "one step")


def test_a_lowering_that_needs_values_has_them_and_says_so(tmp_path: Path) -> None:
    made = Lowerings(State(), tmp_path)
    structure = made.structure()
    why = (structure / "needs_values").read_text()
    assert why == "aten._local_scalar_dense.default reads a weight"
    found = dict(made.outputs(weights, "two steps", structure=structure))
    whole = dict(made.outputs(partition, "one step"))
    assert (
        found.pop("notes").decode() == whole.pop("notes").decode() + f"other weights repeat the whole lowering: {why}\n"
    )
    assert found == whole


def test_a_lowered_program_that_computes_other_results_is_refused(tmp_path: Path) -> None:
    made = Lowerings(Net(), tmp_path)
    program = torch.export.export(Net().eval(), (X,))
    (tmp_path / "calls").mkdir()
    write_calls(program, Recording([Call("example", (X,), [program.module()(X)], ["float32"])]), tmp_path / "calls")
    made.given["calls"] = (tmp_path / "calls",)
    structure = made.structure()
    made.outputs(weights, "right", structure=structure)
    one, other, *_ = (
        path
        for path in sorted((structure / "lowered").glob("*.source"))
        if (tmp_path / "weights" / path.read_text()).stat().st_size == 256
    )
    text = one.read_text()
    one.write_text(other.read_text())
    other.write_text(text)
    with pytest.raises(StepError, match="output 0 of the partitioned program differs from the model's"):
        made.outputs(weights, "wrong", structure=structure)


@pytest.mark.parametrize(
    "read",
    [
        lambda weight: bool(weight.sum().item() > 0),
        lambda weight: bool((weight > 0).all()),
        lambda weight: torch.equal(weight, weight + 1),
        torch.Tensor.numpy,
    ],
    ids=["item", "bool", "equal", "numpy"],
)
def test_code_that_reads_a_weight_fails(read: Callable[[Tensor], object], tmp_path: Path) -> None:
    Lowerings(Net(), tmp_path)
    program, _ = load_structure(tmp_path / "program")
    with pytest.raises(Exception, match=r".+"):
        read(program.state_dict["one.weight"])
