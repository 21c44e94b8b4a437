"""Parse the size of a dimension that depends on others: sums of dimensions times positive numbers, as `8*h8 + 1`."""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass

from modelbuild.errors import did_you_mean
from modelbuild_rules.model.expressions import parse_expression

_BIGGEST = 2**31
_EXPECTED = 'expected a multiple or sum of other dimensions, such as "8*h8" or "past + new"'


@dataclass(frozen=True)
class Linear:
    """A sum of `plus` and each dimension's size times a number."""

    terms: dict[str, int]
    plus: int


def parse_size(text: str, dimensions: Collection[str]) -> Linear:
    """Return the size as a sum. Raises ValueError for text that is not a sum, or that names an unknown dimension."""
    try:
        found = parse_expression(text.strip())
    except ValueError as problem:
        raise ValueError(f"{problem}; {_EXPECTED}") from None
    terms: dict[str, int] = {}
    plus = 0
    for name, factor in _sum(found):
        if not name:
            plus += factor
        elif name not in dimensions:
            raise ValueError(f"'{name}' is not a dimension with min and max{did_you_mean(name, dimensions)}")
        else:
            terms[name] = terms.get(name, 0) + factor
    if not terms or min(terms.values()) < 1 or max(abs(plus), *terms.values()) > _BIGGEST:
        raise ValueError(_EXPECTED)
    return Linear(dict(sorted(terms.items())), plus)


def _sum(node: ast.expr) -> list[tuple[str, int]]:
    """Return the terms of a sum: a name ('' for a number) and its factor."""
    match node:
        case ast.Name(id=name):
            return [(name, 1)]
        case ast.Constant(value=bool()):
            pass
        case ast.Constant(value=int(number)):
            return [("", number)]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return [*_sum(left), *_sum(right)]
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return [*_sum(left), *((name, -factor) for name, factor in _sum(right))]
        case ast.BinOp(left=ast.Constant(value=int(number)), op=ast.Mult(), right=other):
            return [(name, number * factor) for name, factor in _sum(other)]
        case ast.BinOp(left=other, op=ast.Mult(), right=ast.Constant(value=int(number))):
            return [(name, number * factor) for name, factor in _sum(other)]
    raise ValueError(_EXPECTED)
