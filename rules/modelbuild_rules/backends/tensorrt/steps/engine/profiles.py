"""Compute the shapes that an engine is built for: minimum, optimum and maximum, for each optimization profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from modelbuild.errors import did_you_mean
from modelbuild.step import StepError

Ranges = dict[Any, tuple[int, int, int]]
Shapes = list[list[int]]
"""[minimum, optimum, maximum] shape."""


def profiles_of(program: ExportedProgram, given: Sequence[Mapping[str, Mapping[str, Sequence[int]]]]) -> list[Ranges]:
    """Return for each profile: symbol -> (minimum, optimum, maximum).

    `given` are the attribute's tables: input -> {min, opt, max}. If it is empty, there is one profile: each dimension's
    declared range, with the middle as optimum. Raises StepError for tables that don't match the program's inputs, and
    for a dimension without bounds.
    """
    inputs = {node.name: node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"}
    inputs = {name: inputs[name] for name in program.graph_signature.user_inputs if name in inputs}
    declared = {symbol: (int(r.lower), _finite(r.upper)) for symbol, r in program.range_constraints.items()}
    ranges = [_profile(index, table, inputs, declared) for index, table in enumerate(given)] or [{}]
    for name, value in inputs.items():
        for axis, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
            symbol = size.node.expr if isinstance(size, torch.SymInt) else None
            for profile in ranges:
                if isinstance(symbol, sympy.Symbol) and symbol not in profile:
                    least, greatest = declared.get(symbol, (0, None))
                    if greatest is None:
                        raise StepError(
                            f"dimension {axis} of input '{name}' has no maximum size; expected 'max' in the model's"
                            " inputs, or the input in optimization_profiles"
                        )
                    profile[symbol] = (least, (least + greatest) // 2, greatest)
    return ranges


def _profile(index: int, table: Mapping[str, Any], inputs: Mapping[str, Any], declared: Mapping[Any, Any]) -> Ranges:
    ranges: Ranges = {}
    for name, shapes in table.items():
        where = f"optimization_profiles[{index}].{name}"
        if name not in inputs:
            near = did_you_mean(name, inputs)
            raise StepError(f"{where}: the model has no input '{name}'; expected one of {', '.join(inputs)}{near}")
        rows = [shapes["min"], shapes["opt"], shapes["max"]]
        shape = inputs[name].shape
        if any(len(row) != len(shape) for row in rows):
            raise StepError(f"{where}: expected min, opt and max with {len(shape)} sizes each, as the input has")
        for axis, (size, *bounds) in enumerate(zip(shape, *rows, strict=True)):
            least, best, greatest = bounds
            symbol = size.node.expr if isinstance(size, torch.SymInt) else None
            if symbol is None and {least, best, greatest} != {size}:
                raise StepError(f"{where}: dimension {axis} is always {size}; expected {size} in min, opt and max")
            if not least <= best <= greatest:
                raise StepError(f"{where}: dimension {axis} is {least}, {best}, {greatest}; expected min <= opt <= max")
            if isinstance(symbol, sympy.Symbol):
                low, high = declared.get(symbol, (0, None))
                if least < low or (high is not None and greatest > high):
                    raise StepError(
                        f"{where}: dimension {axis} is {low} to {'any size' if high is None else high} in the model;"
                        f" expected min and max within"
                    )
                if ranges.setdefault(symbol, (least, best, greatest)) != (least, best, greatest):
                    raise StepError(f"{where}: dimension {axis} is the same as another one, but has other sizes")
    return ranges


def shapes_of(tensor: Any, profiles: Sequence[Ranges]) -> list[Shapes] | None:
    """Return the shapes of a tensor for each profile; None if its shape is fixed."""
    if not any(isinstance(size, torch.SymInt) for size in tensor.shape):
        return None
    return [[[_size(size, profile, place) for size in tensor.shape] for place in range(3)] for profile in profiles]


def _size(size: Any, profile: Ranges, place: int) -> int:
    if not isinstance(size, torch.SymInt):
        return int(size)
    expression = size.node.expr
    if place == 1:
        return int(expression.subs({symbol: best for symbol, (_, best, _) in profile.items()}))
    bounds = bound_sympy(expression, {s: ValueRanges(low, high) for s, (low, _, high) in profile.items()})
    return int(bounds.upper if place else bounds.lower)


def _finite(bound: Any) -> int | None:
    return None if bound in (int_oo, sympy.oo) else int(bound)
