"""Positions of nonzero elements, as ExecuTorch's own runtime finds them after lowering, are eager PyTorch's."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from executorch.extension.pybindings._C import _load_for_executorch_from_buffer
from torch import Tensor, nn
from torch.export import Dim

from modelbuild_rules.program.steps.lowering.rewrites.nonzero import correct_nonzero, has_nonzero

FUNCTIONS: Mapping[str, Callable[[Tensor], Any]] = {
    "nonzero": torch.nonzero,
    "nonzero_tuple": lambda x: torch.nonzero(x, as_tuple=True),
    "argwhere": torch.argwhere,
    "where": torch.where,
    "index": lambda x: torch.arange(x.numel()).reshape(x.shape)[x != 0],
}
SHAPES = [(), (5,), (1,), (3, 4), (1, 6), (4, 1), (2, 3, 4), (2, 1, 3), (2, 3, 2, 2), (1, 2, 3, 4)]
LAYOUTS: Mapping[str, tuple[tuple[int, ...], Callable[[Tensor], Tensor]]] = {
    "transposed": ((3, 4), lambda x: x.t()),
    "permuted": ((2, 3, 4), lambda x: x.permute(2, 0, 1)),
    "expanded": ((3, 1), lambda x: x.expand(3, 4)),
    "expanded in front": ((4,), lambda x: x.expand(2, 3, 4)),
    "columns": ((3, 6), lambda x: x[:, 1:5]),
    "every other row": ((6, 3), lambda x: x[::2]),
    "a slice of a slice": ((2, 4, 6), lambda x: x[1, 1:3, ::2]),
    "channels last": ((2, 3, 2, 2), lambda x: x.contiguous(memory_format=torch.channels_last)),
    "a row": ((3, 4), lambda x: x[1]),
}
DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
FILLINGS = ["some", "none", "all", "one"]


def as_it_is(x: Tensor) -> Tensor:
    return x


class Case(NamedTuple):
    """An input, the function that sets its layout, and the operation on it."""

    function: str
    shape: tuple[int, ...]
    dtype: str = "bool"
    view: Callable[[Tensor], Tensor] = as_it_is


class Each(nn.Module):
    """The functions of cases, of an input each."""

    def __init__(self, cases: Sequence[Case]) -> None:
        super().__init__()
        self.cases = cases

    def forward(self, *inputs: Tensor) -> list[Any]:
        return [FUNCTIONS[case.function](case.view(x)) for case, x in zip(self.cases, inputs, strict=True)]


def filled(shape: tuple[int, ...], dtype: str, filling: str) -> Tensor:
    mask = torch.full(shape, filling == "all")
    if filling == "some":
        mask = torch.rand(shape, generator=torch.Generator().manual_seed(len(shape))) > 0.5
    elif filling == "one" and mask.numel():
        mask.view(-1)[-1] = True
    return mask.to(getattr(torch, dtype)) * (1 if dtype == "bool" else 3)


def flat(results: list[Any]) -> list[Tensor]:
    return [one for each in results for one in (each if isinstance(each, (list, tuple)) else [each])]


def different(results: list[Tensor], expected: list[Tensor]) -> list[int]:
    """Places of results that are others."""
    assert len(results) == len(expected)
    return [i for i, (one, other) in enumerate(zip(results, expected, strict=True)) if not torch.equal(one, other)]


@pytest.fixture
def check(lower: Callable[..., Any], execute: Callable[..., Any], tmp_path: Path) -> Callable[..., None]:
    """Lower all cases as one program with the steps; run it with different parts of its inputs set."""

    def run(cases: Sequence[Case]) -> None:
        module = Each(cases)

        def inputs(filling: str) -> tuple[Tensor, ...]:
            return tuple(filled(case.shape, case.dtype, filling) for case in cases)

        made = lower(torch.export.export(module, inputs("some")), tmp_path / "made")
        for filling in FILLINGS:
            given = inputs(filling)
            assert different(execute(made.pte, given), flat(module(*given))) == [], filling

    return run


@pytest.mark.slow
def test_a_sample(check: Callable[..., None]) -> None:
    names = itertools.cycle(FUNCTIONS)
    check(
        [
            Case("nonzero", ()),
            Case("where", ()),
            Case("index", (2, 3, 2, 2), view=LAYOUTS["channels last"][1]),
            Case("nonzero", (2, 3, 2, 2), view=LAYOUTS["channels last"][1]),
            *(Case(next(names), shape) for shape in SHAPES[3::6]),
            *(Case(next(names), shape, "float32", view) for shape, view in list(LAYOUTS.values())[1:2]),
            Case(next(names), (3, 4), "uint8"),
        ]
    )


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
class TestAsEager:
    def test_every_rank(self, name: str, check: Callable[..., None]) -> None:
        check([Case(name, shape) for shape in SHAPES if shape or name != "index"])

    def test_every_layout(self, name: str, check: Callable[..., None]) -> None:
        check([Case(name, shape, "float32", view) for shape, view in LAYOUTS.values()])

    def test_every_type(self, name: str, check: Callable[..., None]) -> None:
        check([Case(name, (3, 4), dtype) for dtype in DTYPES])


def test_sizes_that_are_known_when_it_runs(
    lower: Callable[..., Any], execute: Callable[..., Any], tmp_path: Path
) -> None:
    cases = [Case("nonzero", ()), Case("where", (), view=lambda x: x.transpose(0, 1)), Case("index", ())]
    module = Each(cases)
    rows, columns = Dim("rows", min=1, max=8), Dim("columns", min=1, max=9)
    dynamic = (({0: rows, 1: columns}, {0: rows, 2: columns}, {0: rows, 1: columns}),)

    def inputs(height: int, width: int, filling: str) -> tuple[Tensor, ...]:
        return tuple(filled(s, "bool", filling) for s in ((height, width), (height, 2, width), (height, width)))

    made = lower(torch.export.export(module, inputs(3, 4, "some"), dynamic_shapes=dynamic), tmp_path / "made")
    for height, width in ((3, 4), (1, 1), (8, 9), (2, 7)):
        for filling in FILLINGS:
            given = inputs(height, width, filling)
            assert different(execute(made.pte, given), flat(module(*given))) == [], (height, width, filling)


def test_positions_of_positions(lower: Callable[..., Any], execute: Callable[..., Any], tmp_path: Path) -> None:
    class Chained(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            rows = torch.nonzero(x > 0)
            return x[rows[:, 0], rows[:, 1]], torch.nonzero(rows)

    x = torch.randn(5, 6, generator=torch.Generator().manual_seed(1))
    made = lower(torch.export.export(Chained(), (x,)), tmp_path / "made")
    assert different(execute(made.pte, [x]), list(Chained()(x))) == []


class Masked(nn.Module):
    """Indexes by masks of one and two dimensions, at each place and beside other indices."""

    def forward(self, x: Tensor, rows: Tensor, plane: Tensor) -> tuple[Tensor, ...]:
        return x[rows], x[:, plane.any(1)], x[:, plane], x[rows, 1], x[rows, :, 0], x[:, :, plane[0]]


def test_masks_at_each_place(lower: Callable[..., Any], execute: Callable[..., Any], tmp_path: Path) -> None:
    x = torch.arange(120.0).view(3, 4, 2, 5)

    def inputs(filling: str) -> tuple[Tensor, ...]:
        return x, filled((3,), "bool", filling).bool(), filled((4, 2), "bool", filling).bool()

    made = lower(torch.export.export(Masked(), inputs("some")), tmp_path / "made")
    for filling in FILLINGS:
        given = inputs(filling)
        assert different(execute(made.pte, given), list(Masked()(*given))) == [], filling


class Filtered(nn.Module):
    """Filters rows twice; either filter may keep none."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        kept = (x + 1)[x[:, 0] > 0]
        return kept, kept[kept[:, 1] > 2], x.index_select(0, torch.nonzero(x[:, 0] > 0).squeeze(1))


def test_masks_of_no_rows(lower: Callable[..., Any], execute: Callable[..., Any], tmp_path: Path) -> None:
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(1))
    sizes = ({0: Dim("rows", min=0, max=6)},)
    made = lower(torch.export.export(Filtered(), (x,), dynamic_shapes=sizes), tmp_path / "made")
    for given in (x, x[:0], -x.abs(), x[:1].abs()):
        assert different(execute(made.pte, [given]), list(Filtered()(given))) == []


def run_by_executorch(program: Any, *inputs: Tensor) -> list[Tensor]:
    made = to_edge_transform_and_lower(program).to_executorch()
    return list(_load_for_executorch_from_buffer(made.buffer).forward(inputs))


def test_a_program_without_any() -> None:
    assert not has_nonzero(torch.export.export(nn.ReLU(), (torch.ones(2, 3),)))
    assert has_nonzero(torch.export.export(Each([Case("index", (3, 4))]), (torch.ones(3, 4),)))


@pytest.mark.parametrize(
    "case",
    [
        Case("nonzero", (3, 4)),
        pytest.param(
            Case("index", (2, 3, 2, 2), view=LAYOUTS["channels last"][1]), marks=pytest.mark.exhaustive, id="mask"
        ),
    ],
    ids=["nonzero", None],
)
def test_still_wrong_without_the_correction(case: Case) -> None:
    """If this fails, ExecuTorch's kernel is correct, and the correction can be removed."""
    module = Each([case])
    x = filled(case.shape, "bool", "some")
    plain, corrected = (torch.export.export(module, (x,)) for _ in range(2))
    assert different(run_by_executorch(plain, x), module(x)) == [0]
    assert different(run_by_executorch(correct_nonzero(corrected), x), module(x)) == []
