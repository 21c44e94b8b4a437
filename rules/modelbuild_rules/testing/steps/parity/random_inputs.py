"""Draw inputs with numpy's default_rng, one after another in the program's order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from modelbuild.step import StepError
from modelbuild_runtime.describe import Port
from modelbuild_runtime.dtypes import numpy_type

if TYPE_CHECKING:
    from modelbuild_rules.testing.documents import GeneratorParams


def draw(ports: Sequence[Port], generator: GeneratorParams, number: int) -> list[dict[str, np.ndarray]]:
    """Return arrays by name for each call of a case, drawn with the generator's seed plus the number of the case.

    Raises StepError for a size that a dynamic dimension does not allow, and for values that can't be drawn."""
    random = np.random.default_rng(generator["seed"] + number)
    return [_call(ports, generator, random) for _ in range(generator["calls"])]


def _call(ports: Sequence[Port], generator: GeneratorParams, random: np.random.Generator) -> dict[str, np.ndarray]:
    drawn = {}
    for port in ports:
        try:  # fails for sizes beyond memory or numpy's limits, and for ranges beyond the dtype's
            drawn[port.name] = _one(port, generator, random)
        except (
            MemoryError,
            OverflowError,
            TypeError,
            ValueError,
        ) as error:
            raise StepError(f"input '{port.name}': no values can be drawn: {error}") from error
    return drawn


def _one(port: Port, generator: GeneratorParams, random: np.random.Generator) -> np.ndarray:
    shape = [_size(port, dim, generator["sizes"]) for dim in port.shape]
    low, high = generator["range"] or port.range or (0.0, 1.0)
    wanted = numpy_type(port.dtype)
    if wanted is None:
        raise StepError(f"input '{port.name}': numpy has no type for {port.dtype}")
    dtype = np.dtype(wanted)
    if dtype == np.bool_:
        return random.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        return random.integers(int(low), int(high), shape, endpoint=True).astype(dtype)
    if generator["distribution"] == "normal":
        return random.normal(generator["mean"], generator["std"], shape).astype(dtype)
    return random.uniform(low, high, shape).astype(dtype)


def _size(port: Port, dim: Any, sizes: Mapping[str, int]) -> int:
    if not dim.dynamic:
        return int(dim.max)
    if dim.name in sizes or not dim.terms:
        size = sizes.get(dim.name, _default(dim))
    else:
        size = dim.size({other.name: sizes.get(other.name, _default(other)) for other, _ in dim.terms})
    if not dim.min <= size <= dim.max:
        raise StepError(f"input '{port.name}': dimension {dim.name} is {size}; expected {dim.min} to {dim.max}")
    return int(size)


def _default(dim: Any) -> int:
    return int(min(max(2, dim.min), dim.max))
