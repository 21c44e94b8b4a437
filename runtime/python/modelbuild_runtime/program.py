"""A loaded program: what it takes and gives, one run, and how long runs take."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

import numpy as np

from modelbuild_runtime.describe import Description, Port, describe
from modelbuild_runtime.dtypes import numpy_type
from modelbuild_runtime.errors import InputError, ProgramError, did_you_mean
from modelbuild_runtime.pte import ProgramFile, read_program_file
from modelbuild_runtime.shapes import Dim, fits, shape_text
from modelbuild_runtime.signature import read_signature

Inputs: TypeAlias = Mapping[str, Any] | Sequence[Any]


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds of the runtime's own execute call, inputs already in place; `runs` of them after `warmup` more."""

    runs: int
    warmup: int
    min_ms: float
    median_ms: float
    p95_ms: float
    max_ms: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"{self.median_ms:.3f} ms median, {self.min_ms:.3f} min, {self.p95_ms:.3f} p95"
            f" ({self.runs} runs after {self.warmup})"
        )


def load(path: str | Path, data_paths: Sequence[str | Path] = ()) -> Program:
    """Load a .pte, and the .ptd beside it: the one of the same name, or the only one if the program may need one.

    Raises ProgramError when the files are no program that this runtime knows. torch is imported when it is first run.
    """
    pte = Path(path)
    program = read_program_file(pte)
    data = [Path(given) for given in data_paths] or _beside(pte, program)
    if len(data) > 1:
        raise ProgramError(f"{pte}: ExecuTorch's Python runtime takes one .ptd, not {len(data)}")
    for file in data:
        if not file.is_file():
            raise ProgramError(f"{file}: no such file")
    if program.external and not data:
        raise ProgramError(f"{pte}: {len(program.external)} of its tensors lie in a .ptd, and there is none beside it")
    candidates = (pte.with_name(f"{pte.stem}.signature.json"), pte.with_name("signature.json"))
    signature = next((read_signature(found) for found in candidates if found.is_file()), None)
    return Program(pte, data[0] if data else None, describe(pte, data, program, signature))


def _beside(pte: Path, program: ProgramFile) -> list[Path]:
    """The .ptd that belongs to a program. Only delegates know whether they keep data in one."""
    own = pte.with_suffix(".ptd")
    if own.is_file():
        return [own]
    may_need = program.external or any(method.delegates for method in program.methods)
    others = sorted(pte.parent.glob("*.ptd"))
    return others if may_need and len(others) == 1 else []


class Program:
    """A program. State that it keeps between runs (such as a cache of a language model) lives as long as this object.
    Not for several threads at once."""

    def __init__(self, path: Path, data: Path | None, description: Description) -> None:
        self._path = path
        self._data = data
        self._description = description
        self._module: Any = None
        self._checked: set[str] = set()

    def describe(self) -> Description:
        """Methods, inputs and outputs, backends and sizes. Needs no torch."""
        return self._description

    def run(self, inputs: Inputs, method: str = "forward") -> dict[str, np.ndarray]:
        """Run a method on arrays by name, or in order. Returns arrays of the caller's own, by output name.

        Arrays have exactly the program's element type; bfloat16 is given and returned as float32. Numbers that the
        program takes besides arrays may be left out. Raises InputError for what does not fit, ProgramError otherwise.
        """
        prepared = self._prepare(inputs, method)
        from modelbuild_runtime.bindings import execute, to_array

        values = execute(self._module, method, prepared, str(self._path))
        outputs = self._description.method(method).outputs
        if len(values) != len(outputs):
            raise ProgramError(f"{self._path}: {len(values)} outputs came back, {len(outputs)} were promised")
        return {port.name: to_array(value) for port, value in zip(outputs, values, strict=True)}

    def measure(self, inputs: Inputs, method: str = "forward", repeat: int = 10, warmup: int = 3) -> Latency:
        """Run a method `warmup` times, then `repeat` times with the clock on. State goes on changing meanwhile."""
        if repeat < 1 or warmup < 0:
            raise InputError("repeat must be at least 1 and warmup at least 0")
        prepared = self._prepare(inputs, method)
        from modelbuild_runtime.bindings import execute

        times = []
        for number in range(warmup + repeat):
            began = time.perf_counter_ns()
            execute(self._module, method, prepared, str(self._path), clone=False)
            if number >= warmup:
                times.append((time.perf_counter_ns() - began) / 1e6)
        times.sort()
        p95 = times[math.ceil(0.95 * len(times)) - 1]
        return Latency(repeat, warmup, times[0], median(times), p95, times[-1])

    def _prepare(self, inputs: Inputs, method: str) -> list[Any]:
        described = self._description.method(method)
        arrays = check_inputs(described.inputs, inputs)
        from modelbuild_runtime.bindings import check_supported, load_module, to_tensor

        if method not in self._checked:
            check_supported(str(self._path), described)
            self._checked.add(method)
        if self._module is None:
            self._module = load_module(self._path, self._data)
        return [
            to_tensor(array, port) if port.kind == "tensor" else array
            for port, array in zip(described.inputs, arrays, strict=True)
        ]


def check_inputs(ports: tuple[Port, ...], inputs: Inputs) -> list[Any]:
    """What was given, in the program's order: an array for each tensor, the program's own value for anything else.

    Raises InputError that names the input, what was expected and what was given.
    """
    given = inputs if isinstance(inputs, Mapping) else _in_order(ports, inputs)
    names = [port.name for port in ports]
    for name in given:
        if name not in names:
            raise InputError(f"no input '{name}'{did_you_mean(name, names)}; inputs: {', '.join(names) or 'none'}")
    missing = [port for port in ports if port.name not in given and port.constant is None and port.kind != "none"]
    if missing:
        raise InputError(f"missing input {missing[0]}")
    sizes: dict[str, tuple[int, str]] = {}
    return [_checked(port, given.get(port.name, port.constant), sizes) for port in ports]


def _in_order(ports: tuple[Port, ...], inputs: Sequence[Any]) -> dict[str, Any]:
    wanted = [port for port in ports if port.kind == "tensor"] if len(inputs) != len(ports) else list(ports)
    if len(inputs) != len(wanted):
        expected = ", ".join(str(port) for port in wanted) or "none"
        raise InputError(f"{len(inputs)} inputs given, {len(wanted)} expected: {expected}")
    return {port.name: value for port, value in zip(wanted, inputs, strict=True)}


def _checked(port: Port, value: Any, sizes: dict[str, tuple[int, str]]) -> Any:
    if port.kind != "tensor":
        if port.constant is not None and value != port.constant:
            raise InputError(f"input {port}: the program was made for that value only, got {value!r}")
        return value
    array = np.asarray(value)
    wanted = numpy_type(port.dtype)
    if wanted is None:
        raise InputError(f"input {port}: numpy has no type for {port.dtype}")
    if array.dtype != wanted:
        note = " (bfloat16 is given as float32)" if port.dtype == "bfloat16" else ""
        raise InputError(f"input '{port.name}': expected {np.dtype(wanted)}{note}, got {array.dtype}")
    if not fits(port.shape, array.shape):
        raise InputError(f"input '{port.name}': expected shape {shape_text(port.shape)}, got {shape_text(array.shape)}")
    _same_sizes(port, array.shape, sizes)
    return array


def _same_sizes(port: Port, shape: tuple[int, ...], sizes: dict[str, tuple[int, str]]) -> None:
    """Dimensions of one name are equal, within and among inputs."""
    named: list[tuple[Dim, int]] = [(d, s) for d, s in zip(port.shape, shape, strict=True) if d.dynamic and d.name]
    for dim, size in named:
        known, where = sizes.setdefault(dim.name, (size, port.name))
        if known != size:
            raise InputError(
                f"input '{port.name}': dimension {dim.name} is {size}, but {known} in input '{where}'"
                if where != port.name
                else f"input '{port.name}': dimension {dim.name} is both {known} and {size}"
            )
