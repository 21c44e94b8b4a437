"""Make inputs: drawn with numpy's default_rng, one after another in the program's order, and consecutive integers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from modelbuild.step import StepError
from modelbuild_runtime.describe import Port
from modelbuild_runtime.dtypes import numpy_type

if TYPE_CHECKING:
    from modelbuild_rules.testing.documents import DrawParams


def draw(ports: Sequence[Port], generator: DrawParams, random: np.random.Generator) -> dict[str, np.ndarray]:
    """Return arrays by name for a call.

    Raises StepError for a size that a dynamic dimension does not allow, and for values that can't be drawn."""
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


def count_from(port: Port, first: int, sizes: Mapping[str, int]) -> np.ndarray:
    """Return consecutive integers in the shape of an input. Raises StepError as draw() does, and for an input of other
    values."""
    dtype = _dtype(port)
    if dtype.kind not in "iu":
        raise StepError(f"input '{port.name}' has values of {port.dtype}; expected integers to count")
    shape = [_size(port, dim, sizes) for dim in port.shape]
    end = first + math.prod(shape)
    if not np.iinfo(dtype).min <= first <= end - 1 <= np.iinfo(dtype).max:
        raise StepError(f"input '{port.name}': {first} to {end - 1} are no values of {port.dtype}")
    return np.arange(first, end, dtype=dtype).reshape(shape)


def _dtype(port: Port) -> np.dtype[Any]:
    wanted = numpy_type(port.dtype)
    if wanted is None:
        raise StepError(f"input '{port.name}': numpy has no type for {port.dtype}")
    return np.dtype(wanted)


def _one(port: Port, generator: DrawParams, random: np.random.Generator) -> np.ndarray:
    shape = [_size(port, dim, generator["sizes"]) for dim in port.shape]
    low, high = generator["range"] or port.range or (0.0, 1.0)
    dtype = _dtype(port)
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
