"""A loaded program: its description, its runs, and their latency."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from modelbuild_runtime.describe import Description, MethodDescription, Port
from modelbuild_runtime.dtypes import numpy_type
from modelbuild_runtime.errors import InputError, ProgramError
from modelbuild_runtime.latency import Latency, measured
from modelbuild_runtime.named import Inputs, check_constant, in_order
from modelbuild_runtime.shapes import Dim, fits, shape_text


class Program:
    """A program. Its state between runs (such as a language model's cache) lives as long as this object. Threads may
    share it: it does one run at a time, and other threads wait until that run's outputs are theirs."""

    def __init__(self, path: Path, data: Path | None, description: Description) -> None:
        self._path = path
        self._data = data
        self._description = description
        self._module: Any = None
        self._checked: set[str] = set()
        self._turn = threading.Lock()  # held from a run until its outputs are copied

    def describe(self) -> Description:
        """Return methods, inputs and outputs, backends and sizes. Torch-free."""
        return self._description

    def unmet_requirements(self) -> list[str]:
        """Return the requirements of its parts that this machine or runtime does not meet, a line each. Torch-free."""
        needed = dict.fromkeys(part.library for part in self._description.contents.parts if part.library is not None)
        return [
            f"needs {each}, which only the C++ runtime loads; MODELBUILD_RUNTIME names its folder" for each in needed
        ]

    def run(self, inputs: Inputs, method: str | None = None) -> dict[str, np.ndarray]:
        """Run a method on arrays by name or in order. Return arrays, which the caller owns, by output name. Without a
        name, the method is the only one, or `forward`.

        Arrays must have the program's element type; bfloat16 is passed and returned as float32. Numeric inputs besides
        arrays are optional. Raises InputError for inputs that do not match, ProgramError for other failures.
        """
        from modelbuild_runtime.bindings import execute, to_array

        described = self._description.method(method)
        with self._turn:
            prepared = self._prepare(inputs, described)
            values = execute(self._module, described.name, prepared, str(self._path))
        outputs = described.outputs
        if len(values) != len(outputs):
            raise ProgramError(f"{self._path}: the run returned {len(values)} outputs; expected {len(outputs)}")
        return {port.name: to_array(value) for port, value in zip(outputs, values, strict=True)}

    def measure(self, inputs: Inputs, method: str | None = None, repeat: int = 10, warmup: int = 3) -> Latency:
        """Run a method `warmup` times, then time `repeat` runs. Each run changes the program's state."""
        from modelbuild_runtime.bindings import execute

        def once() -> float:
            began = time.perf_counter_ns()
            execute(self._module, described.name, prepared, str(self._path), clone=False)
            return (time.perf_counter_ns() - began) / 1e6

        described = self._description.method(method)
        with self._turn:
            prepared = self._prepare(inputs, described)
            return measured(once, repeat, warmup)

    def _prepare(self, inputs: Inputs, described: MethodDescription) -> list[Any]:
        arrays = check_inputs(described.inputs, inputs)
        from modelbuild_runtime.bindings import check_supported, load_module, load_sharing_module, to_tensor

        shares = self._description.contents.shared_state
        if shares and self._data is not None:
            raise ProgramError(
                f"{self._path}: its methods share their state and have weights in a .ptd; ExecuTorch's Python runtime"
                " can't load both, and the C++ runtime does: MODELBUILD_RUNTIME names its folder"
            )
        if described.name not in self._checked:
            check_supported(str(self._path), described, self._description.contents.kernels)
            self._checked.add(described.name)
        if self._module is None:
            self._module = load_sharing_module(self._path) if shares else load_module(self._path, self._data)
        return [
            to_tensor(array, port) if port.kind == "tensor" else array
            for port, array in zip(described.inputs, arrays, strict=True)
        ]


def check_inputs(ports: tuple[Port, ...], inputs: Inputs) -> list[Any]:
    """Return the inputs in the program's order: an array for each tensor, the program's own value for others.

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
    """Raise InputError if the size of a dimension that depends on others does not agree with them."""
    known = {name: size for name, (size, _) in sizes.items()}
    for dim in {dim.name: dim for port in ports for dim in port.shape if dim.terms and dim.dynamic}.values():
        size, where = sizes[dim.name]
        others = ", ".join(f"{each.name}={known[each.name]}" for each, _ in dim.terms if each.name in known)
        if not dim.follow(size, known):
            why = f" with {others}" if others else ""
            raise InputError(f"input '{where}': dimension {dim.name} is {size}; expected {dim.formula}{why}")
