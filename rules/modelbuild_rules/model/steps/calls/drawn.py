"""Draw the calls on which a program is compared with its module.

| call | sizes | values |
| --- | --- | --- |
| the example inputs | the example's | the example's |
| other values, twice | the example's | negative and beyond 1, or the declared range |
| the least sizes | the least | like the example's |
| the greatest sizes | the greatest | like the example's |

A module may refuse some values, such as a negative index of an embedding, or a divisor of 0. Such a call is drawn
again: from the example's least value to its greatest, and from 1 to 9.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from modelbuild_rules.model.steps.eager.sizes import size_of

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import DeclaredInput, DynamicDimension

EXAMPLE = "the example inputs"

_FLOATS, _INTEGERS, _POSITIVE = (-3.0, 3.0), (-9, 9), (1.0, 9.0)
_MOST = 1 << 20
"""The maximum number of elements of all inputs with the greatest sizes, unless the example inputs have more than a
quarter of this number."""

Range = tuple[float, float]


@dataclass(frozen=True)
class DrawnCall:
    """A call of a module: its name, and the inputs to try in order."""

    name: str
    choices: Sequence[tuple[Tensor, ...]]


def drawn_calls(
    declared: Sequence[DeclaredInput], dynamic: Mapping[str, DynamicDimension], seed: int, examples: Sequence[Tensor]
) -> Iterator[DrawnCall]:
    """Yield the calls, the example inputs first."""
    yield DrawnCall(EXAMPLE, [tuple(examples)])
    own = [list(each.shape) for each in examples]
    like = [_like(each) for each in examples]
    wide = [_wide(each["range"], example, near) for each, example, near in zip(declared, examples, like, strict=True)]
    positive = [_POSITIVE] * len(wide)
    draw = _Draw(seed, examples)
    for name in ("other values", "other values again"):
        yield DrawnCall(name, [draw(own, each) for each in (wide, like, positive)])
    sizes = {name: (each["min"], each["max"]) for name, each in dynamic.items() if not each.get("terms")}
    for name, which in (("the least sizes", 0), ("the greatest sizes", 1)):
        shapes = _shapes(declared, dynamic, {dim: both[which] for dim, both in sizes.items()}, examples)
        if which:
            shapes = _limited(declared, dynamic, sizes, examples)
        if shapes != own:
            yield DrawnCall(name, [draw(shapes, like)])


class _Draw:
    """Draws inputs of the examples' types, all from one generator."""

    def __init__(self, seed: int, examples: Sequence[Tensor]) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self._dtypes = [each.dtype for each in examples]

    def __call__(self, shapes: Sequence[Sequence[int]], ranges: Sequence[Range]) -> tuple[Tensor, ...]:
        return tuple(self._one(*each) for each in zip(self._dtypes, shapes, ranges, strict=True))

    def _one(self, dtype: torch.dtype, shape: Sequence[int], ends: Range) -> Tensor:
        low, high = ends
        if dtype == torch.bool:
            return torch.randint(0, 2, tuple(shape), generator=self._generator).bool()
        if not dtype.is_floating_point:
            known = torch.iinfo(dtype)
            first, last = max(int(low), known.min), min(int(high), known.max, 2**63 - 2)
            return torch.randint(first, last + 1, tuple(shape), generator=self._generator, dtype=torch.int64).to(dtype)
        values = torch.rand(tuple(shape), generator=self._generator, dtype=torch.float64)
        return (values * (high - low) + low).to(dtype)


def _like(example: Tensor) -> Range:
    """Return the least and the greatest finite value of an example."""
    values = example.double()
    finite = values[values.isfinite()]
    return (float(finite.min()), float(finite.max())) if finite.numel() else (0.0, 1.0)


def _wide(given: Range | None, example: Tensor, like: Range) -> Range:
    if given is not None:
        return given
    low, high = _FLOATS if example.is_floating_point() else _INTEGERS
    return min(low, like[0]), max(high, like[1])


def _shapes(
    declared: Sequence[DeclaredInput],
    dynamic: Mapping[str, DynamicDimension],
    sizes: Mapping[str, int],
    examples: Sequence[Tensor],
) -> list[list[int]]:
    return [
        [size_of(size, dynamic, sizes) if isinstance(size, str) else size for size in each["shape"] or example.shape]
        for each, example in zip(declared, examples, strict=True)
    ]


def _limited(
    declared: Sequence[DeclaredInput],
    dynamic: Mapping[str, DynamicDimension],
    sizes: Mapping[str, tuple[int, int]],
    examples: Sequence[Tensor],
) -> list[list[int]]:
    """Return shapes of the greatest sizes, each halved until the limit of elements is met."""
    most = max(_MOST, 4 * sum(each.numel() for each in examples))
    halvings = 0
    while True:
        chosen = {dim: max(low, high >> halvings) for dim, (low, high) in sizes.items()}
        shapes = _shapes(declared, dynamic, chosen, examples)
        if sum(map(math.prod, shapes)) <= most or all(chosen[dim] == low for dim, (low, _) in sizes.items()):
            return shapes
        halvings += 1
