"""Kernels and rewrites that count, select or add up elements by their values, against eager mode: distinct and most
frequent values, histograms, bags of embeddings, reductions by index, places in sorted numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.portable_program import build_program
from tests.runtime.native.kernel_results import NAN, Inputs, Run, compare, numbers, run, uniform

OPERATORS = frozenset(
    {
        "aten::_embedding_bag",
        "aten::_embedding_bag_forward_only",
        "aten::_unique2",
        "aten::bincount",
        "aten::histc",
        "aten::mode",
        "aten::unique_consecutive",
        "aten::unique_dim",
    }
)
"""The operators of the kernels that are tested here."""

WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
KINDS = (torch.bool, *WHOLE, *FLOATING)


class Call(torch.nn.Module):
    """Calls a function. Results of the type bfloat16, which files of numpy lack, become float32."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: Tensor) -> Any:
        made = self.function(*tensors)
        made = (made,) if isinstance(made, Tensor) else tuple(made)
        return tuple(each.float() if each.dtype == torch.bfloat16 else each for each in made)


@dataclass(frozen=True)
class Case:
    """A function, and inputs for it. `dynamic` are the dimensions of them that differ, up to 64."""

    function: Callable[..., Any]
    inputs: Sequence[Inputs]
    dynamic: tuple[Mapping[int, str], ...] = ()
    tolerance: float = 0


def short(kind: torch.dtype) -> str:
    return str(kind).removeprefix("torch.")


def drawn(kind: torch.dtype, *shape: int, seed: int = 0) -> Tensor:
    """Return few different values, negative ones too."""
    made = numbers(5, *shape, seed=seed)
    return made > 2 if kind == torch.bool else (made if kind == torch.uint8 else made - 2).to(kind)


def at(kind: torch.dtype, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that first converts its floating-point inputs, since files of numpy lack bfloat16."""
    return lambda *tensors: function(*(x.to(kind) if x.is_floating_point() else x for x in tensors))


def stored(x: Tensor) -> Tensor:
    return x.float() if x.dtype == torch.bfloat16 else x


def bounded_bincount(x: Tensor, weights: Tensor | None = None) -> Tensor:
    counts = torch.bincount(x, weights, minlength=3)
    torch._check(counts.shape[0] <= 20)
    return counts


def bag(indices: Tensor, offsets: Tensor, weight: Tensor, scales: Tensor | None = None, **how: Any) -> Tensor:
    return functional.embedding_bag(indices, weight, offsets, per_sample_weights=scales, **how)


def parts_of_bags(indices: Tensor, offsets: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
    return torch.ops.aten._embedding_bag(weight, indices, offsets, False, 2)


def reduced(reduction: str, dim: int, include_self: bool, x: Tensor, index: Tensor, source: Tensor) -> Tensor:
    return torch.index_reduce(x, dim, index, source, reduction, include_self=include_self)


UNIQUE_ALL = partial(torch.unique, return_inverse=True, return_counts=True)
LENGTHS = ({0: "n"},)
SPECIAL = torch.tensor([1.0, NAN, -float("inf"), 0.0, -0.0, NAN, float("inf"), 1.0])
BAGS = [
    (numbers(7, 12, seed=seed), torch.tensor(offsets), uniform(7, 5, seed=seed))
    for seed, offsets in enumerate(([0, 3, 3, 7], [0, 0, 1, 12], [0, 12, 12, 12]))
]
# Eager mode differs between its modes about indices after the last bag's end.
ENDED_BAGS = [(one, torch.tensor([*other.tolist()[:-1], 12]), weight) for one, other, weight in BAGS]

CASES: Mapping[str, Case] = {
    **{
        f"mode_{short(kind)}": Case(
            at(kind, partial(torch.mode, dim=dim, keepdim=keep)),
            [(stored(drawn(kind, count, 9, 3, seed=count)),) for count in (4, 1, 7)],
            LENGTHS,
        )
        for kind, (dim, keep) in zip(KINDS, product((0, 1, -1), (False, True, False, True)), strict=False)
    },
    "mode_number": Case(torch.mode, [(torch.tensor(2.5),)]),
    "mode_empty": Case(partial(torch.mode, dim=1), [(torch.zeros(0, 3),)]),
    **{
        f"unique_{short(kind)}": Case(
            at(kind, UNIQUE_ALL), [(stored(drawn(kind, count, 3, seed=count)),) for count in (9, 0, 1, 64)], LENGTHS
        )
        for kind in KINDS
    },
    "unique_uint16": Case(torch.unique, [(drawn(torch.uint8, 9).to(torch.uint16),)]),
    "unique_special": Case(UNIQUE_ALL, [(SPECIAL,)]),
    "unique_alone": Case(torch.unique, [(numbers(4, n, seed=n),) for n in (7, 0, 64)], LENGTHS),
    "unique_number": Case(UNIQUE_ALL, [(torch.tensor(3),)]),
    "unique_unsorted": Case(partial(torch.unique, sorted=False, return_counts=True), [(numbers(4, 30),)]),
    **{
        f"unique_dim_{dim}": Case(
            partial(torch.unique, return_inverse=True, return_counts=True, dim=dim),
            [(numbers(2, *shape, seed=seed).float(),) for seed in range(3)],
        )
        for dim, shape in ((0, (9, 2)), (1, (2, 9, 1)), (-1, (2, 2, 12)))
    },
    "unique_dim_alone": Case(partial(torch.unique, dim=0), [(numbers(2, n, 3),) for n in (12, 0, 1)], LENGTHS),
    **{
        f"unique_consecutive_{'all' if dim is None else dim}": Case(
            partial(torch.unique_consecutive, return_inverse=True, return_counts=True, dim=dim),
            [(numbers(2, n, 2, seed=n),) for n in (12, 1, 30)],
            LENGTHS,
        )
        for dim in (None, 0, 1)
    },
    "unique_consecutive_alone": Case(torch.unique_consecutive, [(SPECIAL,)]),
    **{
        f"bincount_{short(kind)}": Case(
            bounded_bincount if kind.itemsize > 1 else torch.bincount,
            [(numbers(limit, count, seed=count).to(kind),) for count, limit in ((9, 5), (0, 1), (64, 20))],
            LENGTHS,
        )
        for kind in WHOLE
    },
    **{
        f"bincount_weights_{short(kind)}": Case(
            at(kind, bounded_bincount) if kind.is_floating_point else bounded_bincount,
            [(numbers(20, 40), stored(drawn(kind, 40)))],
        )
        for kind in KINDS
    },
    "bincount_least": Case(partial(torch.bincount, minlength=300), [(numbers(200, 30).to(torch.uint8),)]),
    **{
        f"histc_{short(kind)}": Case(
            at(kind, partial(torch.histc, bins=7, min=-1, max=0.75)),
            [(stored(uniform(count, 3, seed=count, kind=kind)) * 2,) for count in (30, 0, 1, 64)],
            LENGTHS,
        )
        for kind in FLOATING
    },
    **{
        f"histc_of_its_own_range_{bins}": Case(
            partial(torch.histc, bins=bins), [(uniform(40, seed=1),), (uniform(1),), (torch.ones(9),)], LENGTHS
        )
        for bins in (1, 10, 100)
    },
    "histc_edges": Case(
        partial(torch.histc, bins=10, min=0, max=1),
        [(torch.arange(0, 1.05, 0.1),), (torch.linspace(-1, 2, 61),)],
        LENGTHS,
    ),
    "histc_special": Case(partial(torch.histc, bins=3, min=-2, max=2), [(SPECIAL,)]),
    "histc_number": Case(torch.histc, [(torch.tensor(0.5),)]),
    **{
        f"embedding_bag_{mode}{'_padding' if padding else ''}{'_last' if last else ''}": Case(
            partial(bag, mode=mode, padding_idx=padding, include_last_offset=last),
            ENDED_BAGS if last else BAGS,
            tolerance=1e-6,
        )
        for mode in ("sum", "mean", "max")
        for padding in (None, 2)
        for last in (False, True)
    },
    **{
        f"embedding_bag_{mode}_{short(kind)}": Case(
            at(kind, partial(bag, mode=mode)),
            [(one, other, stored(weight.to(kind))) for one, other, weight in BAGS],
            tolerance={2: 2e-2, 4: 1e-6, 8: 1e-12}[kind.itemsize],
        )
        for mode in ("sum", "mean", "max")
        for kind in FLOATING
    },
    "embedding_bag_weights": Case(
        partial(bag, mode="sum"), [(*each, uniform(12, seed=9)) for each in BAGS], tolerance=1e-6
    ),
    "embedding_bag_weights_padding": Case(
        partial(bag, mode="sum", padding_idx=0), [(*each, uniform(12, seed=9)) for each in BAGS], tolerance=1e-6
    ),
    "embedding_bag_int32": Case(
        partial(bag, mode="mean"), [(one.int(), other.int(), weight) for one, other, weight in BAGS], tolerance=1e-6
    ),
    "embedding_bag_lengths": Case(
        partial(bag, mode="mean", padding_idx=1),
        [
            (numbers(7, count), torch.arange(bags).clamp(max=count), uniform(7, 5))
            for count, bags in ((9, 4), (1, 1), (0, 3), (50, 64))
        ],
        ({0: "n"}, {0: "bags"}, {}),
        tolerance=1e-6,
    ),
    "embedding_bag_rows": Case(
        lambda indices, weight: functional.embedding_bag(indices, weight, mode="sum"),
        [(numbers(7, 4, 6), uniform(7, 5))],
        tolerance=1e-6,
    ),
    "embedding_bag_nan": Case(partial(bag, mode="max"), [(*BAGS[0][:2], uniform(7, 5).log())]),
    "embedding_bag_parts": Case(parts_of_bags, BAGS),
    **{
        f"index_reduce_{reduction}_{dim}_{'with' if include_self else 'without'}_self": Case(
            partial(reduced, reduction, dim, include_self),
            [
                (uniform(4, 4), numbers(4, 6, seed=seed), uniform(*((6, 4) if dim == 0 else (4, 6)), seed=seed + 1))
                for seed in range(2)
            ],
            tolerance=1e-6,
        )
        for reduction in ("prod", "mean", "amax", "amin")
        for dim in (0, -1)
        for include_self in (True, False)
    },
    **{
        f"index_reduce_{reduction}_{short(kind)}": Case(
            at(kind, partial(reduced, reduction, 0, True)),
            [(stored(drawn(kind, 4, 3)), numbers(4, 5).int(), stored(drawn(kind, 5, 3, seed=1)))],
            tolerance={2: 2e-2}.get(kind.itemsize, 1e-6) if kind.is_floating_point else 0,
        )
        for reduction in ("prod", "mean", "amax", "amin")
        for kind in (*WHOLE, *FLOATING)
    },
    "index_reduce_number": Case(
        partial(reduced, "amax", 0, True), [(torch.tensor(1.0), torch.tensor([0]), torch.tensor(4.0))]
    ),
    "index_reduce_lengths": Case(
        partial(reduced, "mean", 1, False),
        [(uniform(3, 4), numbers(4, n), uniform(3, n)) for n in (5, 0, 1)],
        ({}, {0: "n"}, {1: "n"}),
        tolerance=1e-6,
    ),
    **{
        f"searchsorted_{number}_{short(kind)}": Case(
            at(kind, lambda x, number=number: (torch.searchsorted(x, number), torch.bucketize(number, x, right=True))),
            [(stored(drawn(kind, 9).to(kind).sort().values),)],
        )
        for kind in KINDS
        for number in (1, 0.5)
    },
    **{
        f"searchsorted_{short(kind)}_in_{short(other)}": Case(
            lambda x, y: (torch.searchsorted(x, y, side="right", out_int32=True), torch.bucketize(y, x)),
            [(drawn(other, 9).sort().values, drawn(kind, 2, 3, seed=1))],
        )
        for kind, other in ((torch.float32, torch.int64), (torch.int32, torch.float64), (torch.uint8, torch.int16))
    },
    "searchsorted_sorter": Case(
        lambda x, order: torch.searchsorted(x, 2, sorter=order), [(torch.tensor([3, 1, 2]), torch.tensor([1, 2, 0]))]
    ),
}

QUICK = frozenset(
    {
        "bincount_int64",
        "embedding_bag_lengths",
        "embedding_bag_max_padding",
        "histc_float32",
        "index_reduce_mean_0_without_self",
        "mode_float32",
        "searchsorted_0.5_int64",
        "unique_consecutive_all",
        "unique_dim_1",
        "unique_float32",
    }
)


def build(case: Case, folder: Path) -> Path:
    sizes = {name: torch.export.Dim(name, min=0, max=64) for each in case.dynamic for name in each.values()}
    shapes = tuple({axis: sizes[name] for axis, name in each.items()} for each in case.dynamic)
    exported = torch.export.export(Call(case.function), case.inputs[0], dynamic_shapes=(shapes,) if sizes else None)
    return build_program(exported, folder).pte


@pytest.mark.parametrize(
    "name", [each if each in QUICK else pytest.param(each, marks=pytest.mark.exhaustive) for each in CASES]
)
def test_a_kernel_computes_the_values_of_eager_mode(name: str, modelbuild_run: Run, tmp_path: Path) -> None:
    case = CASES[name]
    (tmp_path / "built").mkdir()
    program = build(case, tmp_path / "built")
    for inputs in case.inputs:
        expected = Call(case.function)(*inputs)
        compare(run(modelbuild_run, program, inputs, tmp_path), expected, case.tolerance)


REFUSED: Mapping[str, tuple[Callable[..., Any], Inputs, Inputs, str]] = {
    "bincount": (
        bounded_bincount,
        (numbers(5, 3),),
        (torch.tensor([1, -1, 2]),),
        "self: expected numbers of 0 or more",
    ),
    "bincount_bound": (
        bounded_bincount,
        (numbers(5, 3),),
        (torch.tensor([1, 20, 2]),),
        "maximum capacity of 20 elements",
    ),
    "bincount_great": (
        bounded_bincount,
        (numbers(5, 3),),
        (torch.tensor([1, 2**63 - 1, 2]),),
        "self: a number is too great to be counted",
    ),
    "histc": (partial(torch.histc, bins=4), (uniform(3),), (torch.tensor([1.0, NAN, 2.0]),), "is not finite"),
    "histc_infinite": (
        partial(torch.histc, bins=4),
        (uniform(3),),
        (torch.tensor([1.0, float("inf"), 2.0]),),
        "is not finite",
    ),
    "embedding_bag_index": (
        partial(bag, mode="sum"),
        BAGS[0],
        (BAGS[0][0] + 5, *BAGS[0][1:]),
        "indices: expected numbers below 7",
    ),
    "embedding_bag_negative": (
        partial(bag, mode="max"),
        BAGS[0],
        (BAGS[0][0] - 5, *BAGS[0][1:]),
        "indices: expected numbers below 7",
    ),
    **{
        f"embedding_bag_offsets_{number}": (
            partial(bag, mode="mean"),
            BAGS[0],
            (BAGS[0][0], torch.tensor(offsets), BAGS[0][2]),
            "offsets: expected ascending places of indices",
        )
        for number, offsets in enumerate(([1, 2, 3, 4], [0, 5, 3, 7], [0, 2, 3, 13], [0, -1, 0, 2]))
    },
    "index_reduce": (
        partial(reduced, "mean", 0, True),
        (uniform(4, 2), numbers(4, 3), uniform(3, 2)),
        (uniform(4, 2), torch.tensor([0, 4, 1]), uniform(3, 2)),
        "index: expected numbers below the size of the dimension",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_values_end_the_run_with_a_message(name: str, modelbuild_run: Run, tmp_path: Path) -> None:
    function, right, wrong, problem = REFUSED[name]
    (tmp_path / "built").mkdir()
    program = build(Case(function, [right]), tmp_path / "built")
    for number, each in enumerate(wrong):
        np.save(tmp_path / f"in{number}.npy", each.numpy())
    done = modelbuild_run(program, *(f"--input=input{n}={tmp_path}/in{n}.npy" for n in range(len(wrong))))
    assert done.returncode == 1, done.stderr
    assert problem in done.stderr.splitlines()[-1]
