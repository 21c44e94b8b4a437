"""Check arrays against a program's inputs: types, shapes, and sizes that depend on each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from modelbuild_runtime.describe import Port
from modelbuild_runtime.dtypes import numpy_type
from modelbuild_runtime.errors import InputError
from modelbuild_runtime.named import Inputs, check_constant, in_order
from modelbuild_runtime.shapes import Dim, fits, shape_text


def check_inputs(ports: tuple[Port, ...], inputs: Inputs) -> list[Any]:
    """Return the inputs in the program's order: an array for each tensor, the program's own value for other inputs.

    Raises InputError with the input, the expected and the given value.
    """
    sizes: dict[str, tuple[int, str]] = {}
    given = zip(ports, in_order(ports, inputs), strict=True)
    checked = [_checked(port, value, sizes) for port, value in given]
    check_sums(ports, sizes)
    return checked


def _checked(port: Port, value: Any, sizes: dict[str, tuple[int, str]]) -> Any:
    if port.kind != "tensor":
        check_constant(port, value)
        return value
    array = np.asarray(value)
    wanted = numpy_type(port.dtype)
    if wanted is None:
        raise InputError(f"input {port}: numpy has no type for {port.dtype}")
    if array.dtype != wanted:
        note = " (bfloat16 is passed as float32)" if port.dtype == "bfloat16" else ""
        raise InputError(f"input '{port.name}': expected {np.dtype(wanted)}{note}, got {array.dtype}")
    if not fits(port.shape, array.shape):
        raise InputError(f"input '{port.name}': expected shape {shape_text(port.shape)}, got {shape_text(array.shape)}")
    _same_sizes(port, array.shape, sizes)
    return array


def _same_sizes(port: Port, shape: tuple[int, ...], sizes: dict[str, tuple[int, str]]) -> None:
    """Raise InputError if dimensions of the same name differ, within or among inputs."""
    named: list[tuple[Dim, int]] = [(d, s) for d, s in zip(port.shape, shape, strict=True) if d.dynamic and d.name]
    for dim, size in named:
        known, where = sizes.setdefault(dim.name, (size, port.name))
        if known != size:
            raise InputError(
                f"input '{port.name}': dimension {dim.name} is {size}, but {known} in input '{where}'"
                if where != port.name
                else f"input '{port.name}': dimension {dim.name} is both {known} and {size}"
            )


def check_sums(ports: tuple[Port, ...], sizes: Mapping[str, tuple[int, str]]) -> None:
    """Raise InputError if a dimension's size contradicts the sizes that it depends on."""
    known = {name: size for name, (size, _) in sizes.items()}
    for dim in {dim.name: dim for port in ports for dim in port.shape if dim.terms and dim.dynamic}.values():
        size, where = sizes[dim.name]
        others = ", ".join(f"{each.name}={known[each.name]}" for each, _ in dim.terms if each.name in known)
        if not dim.follow(size, known):
            why = f" with {others}" if others else ""
            raise InputError(f"input '{where}': dimension {dim.name} is {size}; expected {dim.formula}{why}")
