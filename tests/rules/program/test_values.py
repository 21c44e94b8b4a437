"""Values that are added after lowering and compilation give the program of a lowering with values."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from modelbuild.step import Step
from modelbuild_rules.backend_api.steps.partition_files import read_partition
from modelbuild_rules.model.steps.exported.program import save_program
from tests.rules.program.conftest import XNNPACK, Model, files_of
from tests.rules.xnnpack_steps import compile_xnnpack

STACK: Sequence[Mapping[str, Any]] = [
    {
        "kind": "xnnpack",
        "partitioning": "modelbuild_rules.backends.xnnpack.steps.partitioning",
        "attributes": XNNPACK,
    },
    {"kind": "portable", "partitioning": "", "attributes": {"ops": None}},
]
NAMES = ("residual", "partitions", "plan", "report", "notes")
LOWERED_WITH_VALUES = ("counter",)
COMPILED_WITH_VALUES = {"conv_static_quant", "mlp_dynamic_quant"}


class Ways:
    """The ways from a program to a .pte, in a folder."""

    def __init__(self, program: Any, folder: Path, external: bool = False) -> None:
        self.folder = folder
        for name in ("program", "weights", "structure"):
            (folder / name).mkdir(parents=True)
        save_program(program, folder / "program", folder / "weights", values=True)
        self._params = {"backends": STACK, "external_weights": external}
        self._given = {"program": (folder / "program",)}

    def structure(self) -> Path:
        from modelbuild_rules.program.steps import partition

        made = self.folder / "structure"
        if not any(made.iterdir()):
            partition.run(Step(self._params, self._given, {"structure": made}, self.folder))
        return made

    def separately(self) -> list[bytes]:
        """Return the files of a program whose values are added after lowering and compilation."""
        from modelbuild_rules.program.steps import weights

        return self._linked("separate", weights, compile_xnnpack, structure=(self.structure(),))

    def whole(self) -> list[bytes]:
        """Return the files of a program that is lowered and compiled with values."""
        from modelbuild_rules.backends.xnnpack.steps.compile import compile
        from modelbuild_rules.program.steps import partition

        def compile_whole(part: Path, compiled: Path) -> None:
            compiled.mkdir(parents=True)
            compile(*read_partition(part), {}).write(compiled)

        return self._linked("whole", partition, compile_whole)

    def _linked(self, way: str, step: Any, compiling: Callable[[Path, Path], object], **more: Any) -> list[bytes]:
        from modelbuild_rules.program.steps import emit

        made = {name: self.folder / way / name for name in NAMES}
        for name in ("residual", "partitions"):
            made[name].mkdir(parents=True)
        step.run(Step(self._params, {**self._given, "weights": (self.folder / "weights",), **more}, made, self.folder))
        ids = [each["id"] for each in json.loads(made["plan"].read_text())]
        for id in ids:
            compiling(made["partitions"] / id, self.folder / way / "compiled" / id)
        given = {
            "residual": (made["residual"],),
            "report": (made["report"],),
            "parts": tuple(self.folder / way / "compiled" / id for id in ids),
        }
        names = ("pte", "delegation", *(("ptd",) * self._params["external_weights"]))
        outputs = {name: self.folder / way / f"model.{name}" for name in names}
        emit.run(Step({"partitions": {"forward": ids}, "sidecars": {}}, given, outputs, self.folder))
        return [path.read_bytes() for path in outputs.values()]

    def needing_values(self) -> dict[str, str]:
        """Return the reasons why partitions are compiled with values."""
        found = self.folder.glob("separate/compiled/*.code/needs_values.json")
        return {path.parent.stem: json.loads(path.read_text())["why"] for path in found}


@pytest.mark.sampled
def test_values_added_later_give_the_same_program(
    every_model: str, model: Callable[[str], Model], tmp_path: Path
) -> None:
    ways = Ways(model(every_model).program, tmp_path)
    assert (ways.structure() / "needs_values").exists() == (every_model in LOWERED_WITH_VALUES)
    separate, whole = ways.separately(), ways.whole()
    if (
        every_model == "twins"
    ):  # partitions with equal values of different weights are one partition of a whole lowering
        assert [len(json.loads(delegation)["partitions"]) for _, delegation in (separate, whole)] == [2, 1]
    else:
        assert separate == whole
    expected = {"p0": "executorch checks the scales of quantized weights"}
    assert ways.needing_values() == (expected if every_model in COMPILED_WITH_VALUES else {})


@pytest.mark.parametrize("name", ["multi", pytest.param("conv", marks=pytest.mark.exhaustive)])
def test_values_outside_the_program_are_the_same(name: str, model: Callable[[str], Model], tmp_path: Path) -> None:
    ways = Ways(model(name).program, tmp_path, external=True)
    assert not (ways.structure() / "needs_values").exists()
    assert ways.separately() == ways.whole()


class Kinds(nn.Module):
    """Weights that are folded, cut, transposed, padded, shared, without dimensions, and outside partitions."""

    def __init__(self, edit: Callable[[Any], object] = lambda net: None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem, self.norm = nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8)
        self.deep, self.alone = nn.Conv2d(8, 8, 7, padding=3, groups=8), nn.BatchNorm2d(8, affine=False)
        self.up, self.line = nn.ConvTranspose2d(8, 6, 2, stride=2, groups=2), nn.Conv1d(6, 8, 3)
        self.slope, self.one, self.other = nn.PReLU(8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.after, self.table = nn.LayerNorm(8), nn.Parameter(torch.randn(3, 8))
        self.factor = nn.Parameter(torch.tensor(0.5))
        with torch.no_grad():
            edit(self)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.slope(self.alone(self.deep(self.norm(self.stem(x)))))
        x = self.line(self.up(x).mean(-1)).mean(-1)
        x = self.other(torch.relu(self.one(x))) + self.one(x) * self.factor
        return torch.cumsum(self.after(x), -1) @ self.table.t()


def tied(net: Any) -> None:
    net.other.weight = net.one.weight


def special(net: Any) -> None:
    net.one.weight[0, :4] = torch.tensor([float("nan"), -0.0, float("inf"), 1e-45])
    net.norm.weight.zero_()
    net.after.bias.zero_()
    net.norm.running_var.zero_()


EDITS: Mapping[str, Callable[[Any], object]] = {
    "random": lambda net: [each.add_(torch.randn_like(each)) for each in net.parameters()],
    "statistics": lambda net: (net.norm.running_var.uniform_(0.5, 2), net.alone.running_mean.uniform_()),
    "equal": lambda net: (net.other.load_state_dict(net.one.state_dict()), net.after.bias.fill_(1)),
    "zero": lambda net: [each.zero_() for each in net.parameters()],
    "special": special,
}


def exported(edit: Callable[[Any], object] = lambda net: None, half: bool = False) -> Any:
    net, x = Kinds(edit).eval(), torch.randn(1, 3, 12, 12)
    return torch.export.export(net.half() if half else net, (x.half() if half else x,))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in ("equal", "special") else pytest.mark.exhaustive) for name in EDITS]
)
def test_other_values_change_no_structure_and_give_the_program_of_a_whole_lowering(name: str, tmp_path: Path) -> None:
    one, other = Ways(exported(), tmp_path / "one"), Ways(exported(EDITS[name]), tmp_path / "other")
    assert files_of(one.structure()) == files_of(other.structure())
    assert not (other.structure() / "needs_values").exists()
    first, second = one.separately(), other.separately()
    assert first[0] != second[0] == other.whole()[0]
    codes = [
        {path: data for path, data in files_of(each.folder / "separate/compiled").items() if ".code/" in path}
        for each in (one, other)
    ]
    assert codes[0] == codes[1]
    assert one.needing_values() == other.needing_values() == {}


@pytest.mark.parametrize("given", [{"half": True}, {"edit": tied}], ids=["half", "tied"])
def test_half_precision_and_shared_weights_are_stored_alike(given: Mapping[str, Any], tmp_path: Path) -> None:
    ways = Ways(exported(**given), tmp_path)
    assert not (ways.structure() / "needs_values").exists()
    assert ways.separately() == ways.whole()
    assert ways.needing_values() == {}


def test_a_partition_whose_compiler_reads_a_value_is_compiled_with_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from modelbuild_rules.backends.xnnpack.steps import compile

    right = compile.rewrite

    def reading(program: Any) -> None:
        assert all(bool(each.isfinite().all()) for each in program.state_dict.values())
        right(program)

    ways = Ways(exported(), tmp_path)
    ways.structure()
    monkeypatch.setattr(compile, "rewrite", reading)
    assert ways.separately() == ways.whole()
    assert ways.needing_values().keys() == {each.name for each in (tmp_path / "separate/partitions").iterdir()}
