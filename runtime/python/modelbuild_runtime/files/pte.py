"""Read a .pte's methods, their inputs and outputs, delegates and sizes. Torch-free.

The format is executorch/schema/program.fbs (identifier ET12) behind an optional extended header ("eh00") at byte 8, as
executorch 1.5.1 write it; field numbers below are positions in that schema.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from modelbuild_runtime.dtypes import NAMES, item_size
from modelbuild_runtime.files.data_file import opened
from modelbuild_runtime.files.flatbuffer import Buffer, Malformed, Table
from modelbuild_runtime.files.manifest import read_manifest
from modelbuild_runtime.files.segments import segment_extents, tensor_sizes

Kind: TypeAlias = Literal["tensor", "none", "int", "bool", "float", "string", "list"]
Constant: TypeAlias = int | float | bool | str | None

# The union KernelTypes, counted from 1. Lists are not distinguished.
_KINDS: tuple[Kind, ...] = ("none", "int", "bool", "float", "tensor", "string")
_T = TypeVar("_T")

Extent: TypeAlias = tuple[int, int]
"""An offset in the file, and a size in bytes."""

_DEVICES = {0: "cpu", 1: "cuda"}

# Members of the union InstructionArguments.
_KERNEL_CALL, _DELEGATE_CALL = 1, 2

# Members of the union KernelTypes: a tensor, and lists, whose items are numbers of values.
_TENSOR, _INTEGERS, _TENSORS = 5, 7, (10, 11)

_COPIES = {"et_copy::_h2d_copy.out": "copied_in", "et_copy::_d2h_copy.out": "copied_out"}


@dataclass(frozen=True, slots=True)
class Value:
    """An input or output of a method.

    sizes      of a tensor; if `bounded`, each may be smaller
    dim_order  dimensions from the outermost in memory to the innermost
    device     the device of its memory ("cpu", "cuda:0")
    planned    true if its memory is the program's own, false if the caller's
    constant   of a number or string: the value with which the program was made, and the only one that it accepts
    """

    kind: Kind
    dtype: str = ""
    sizes: tuple[int, ...] = ()
    bounded: bool = False
    dim_order: tuple[int, ...] = ()
    device: str = "cpu"
    planned: bool = False
    constant: Constant = None


@dataclass(frozen=True, slots=True)
class Delegate:
    """A part of a method that a backend runs.

    backend    the backend's id
    size       bytes of its blob
    offset     offset of the blob in the file
    specs      compile specs: (key, value)
    arguments  the arguments of its call: its inputs, then its outputs
    """

    backend: str
    size: int
    offset: int = 0
    specs: tuple[tuple[str, bytes], ...] = ()
    arguments: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """An instruction of a method: a call of a kernel, or of a delegate.

    kernel    the kernel's name; '' for a delegate
    delegate  the delegate's number; None for a kernel
    after     the numbers of the calls that made its arguments
    place     the number of its chain, and its number in the chain
    inputs    true if an argument is an input of the method
    """

    kernel: str
    delegate: int | None
    after: tuple[int, ...]
    place: tuple[int, int]
    inputs: bool = False


@dataclass(frozen=True, slots=True)
class Moved:
    """Bytes that a run moves between host and device: by GPU delegates that are called with host memory (staged), and
    by the program's own copy instructions (copied)."""

    staged_in: int = 0
    staged_out: int = 0
    copied_in: int = 0
    copied_out: int = 0


@dataclass(frozen=True, slots=True)
class Method:
    """A method.

    operators  number of calls of each kernel outside delegates
    planned    bytes of memory for activations
    most       upper bound of the bytes that a run on host memory moves, from the program's metadata
    calls      in the order in which a run makes them
    """

    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    delegates: tuple[Delegate, ...]
    operators: tuple[tuple[str, int], ...]
    planned: int
    most: Moved
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class ProgramFile:
    """A .pte.

    size      bytes of the whole file
    external  names of tensors in a .ptd
    manifest  the JSON of the file's manifest; None if it has none
    """

    methods: tuple[Method, ...]
    size: int
    external: tuple[str, ...]
    manifest: Mapping[str, Any] | None = None


def read_program_file(path: Path, verify: bool = True) -> ProgramFile:
    """Return the description of a .pte. Raises ProgramError if the file does not exist or is not a program.

    With `verify` the SHA-256 in a file's manifest is checked.
    """
    with opened(path, "an ExecuTorch program") as data:
        return _read(data, read_manifest(data, verify))


def _read(data: memoryview, manifest: Mapping[str, Any] | None) -> ProgramFile:
    if len(data) < 8 or bytes(data[4:6]) != b"ET":
        raise Malformed("it does not start like a .pte")
    size = len(data)
    base = 0
    if len(data) >= 32 and bytes(data[8:12]) == b"eh00":
        size, base = struct.unpack_from("<QQ", data, 16)
        if not 8 <= size <= len(data):
            raise Malformed(f"its header claims {size} bytes of program in a file of {len(data)}")
    with data[:size] as flatbuffer:
        program = Table.root(Buffer(flatbuffer))
        segments = segment_extents(program.tables(4), base, len(data))
        inline = tuple(blob.extent(0) for blob in program.tables(3))
        plans = [_Plan(plan, segments, inline) for plan in program.tables(1)]
        if not plans:
            raise Malformed("it has no methods")
        external = {name for plan in plans for name in plan.external()}
        return ProgramFile(tuple(plan.method() for plan in plans), len(data), tuple(sorted(external)), manifest)


class _Plan:
    """An ExecutionPlan, from which a Method is read."""

    def __init__(self, plan: Table, segments: tuple[Extent, ...], inline: tuple[Extent, ...]) -> None:
        self._plan = plan
        self._blobs = (inline, segments)
        self._values = list(plan.tables(2))

    def method(self) -> Method:
        names = [_dotted(operator.string(0), operator.string(1)) for operator in self._plan.tables(6)]
        calls = Counter(_item(names, call.i32(0)) for call in self._calls(_KERNEL_CALL))
        delegates = enumerate(self._plan.tables(7))
        arguments = {call.i32(0): call.i32s(1) for call in self._calls(_DELEGATE_CALL)}
        return Method(
            name=self._plan.string(0),
            inputs=tuple(self._value(i) for i in self._plan.i32s(3)),
            outputs=tuple(self._value(i) for i in self._plan.i32s(4)),
            delegates=tuple(self._delegate(delegate, arguments.get(i, ())) for i, delegate in delegates),
            operators=tuple(sorted(calls.items())),
            planned=self._planned(),
            most=self._moved(names),
            calls=tuple(self._in_order(names)),
        )

    def _in_order(self, names: Sequence[str]) -> Iterator[Call]:
        """Yield the calls. A tensor is made by the first call that has it as an argument, unless it is an input or a
        constant; another value is made by the call that has it as its last argument."""
        inputs = set(self._plan.i32s(3))
        makers: dict[int, int] = {}
        calls = (each for each in self._instructions() if each[0] in (_KERNEL_CALL, _DELEGATE_CALL))
        for number, (kind, call, place) in enumerate(calls):
            index, arguments = call.i32(0), list(self._expanded(call.i32s(1)))
            after = {makers[each] for each in arguments if each in makers}
            made = [each for each in arguments if _item(self._values, each).u8(0) == _TENSOR or each == arguments[-1]]
            new = [each for each in made if each not in makers and each not in inputs and not self._constant(each)]
            makers.update(dict.fromkeys(new, number))
            name, delegate = (_item(names, index), None) if kind == _KERNEL_CALL else ("", index)
            yield Call(name, delegate, tuple(sorted(after)), place, not inputs.isdisjoint(arguments))

    def _expanded(self, arguments: Sequence[int]) -> Iterator[int]:
        """Yield the numbers of values, and of those in lists."""
        for index in arguments:
            yield index
            value = _item(self._values, index)
            inner, kind = value.table(1), value.u8(0)
            if inner is not None and (kind == _INTEGERS or kind in _TENSORS):
                items = inner.i64s(0) if kind == _INTEGERS else inner.i32s(0)
                yield from (each for each in items if each >= 0)

    def _planned(self) -> int:
        sizes = self._plan.i64s(8)
        if any(size < 0 for size in sizes):
            raise Malformed("its plan of memory cannot be counted")
        return sum(sizes)

    def _moved(self, names: Sequence[str]) -> Moved:
        """Return the bytes that a run on host memory moves, summed over all instructions."""
        inputs = self._plan.i32s(3)
        backends = [delegate.string(0) for delegate in self._plan.tables(7)]
        sums: Counter[str] = Counter()
        known = set(inputs)
        for kind, call, _ in self._instructions():
            arguments = call.i32s(1) if kind in (_KERNEL_CALL, _DELEGATE_CALL) else ()
            if kind == _KERNEL_CALL and arguments:
                sums[_COPIES.get(_item(names, call.i32(0)), "")] += self._bytes(arguments[0])
            elif kind == _DELEGATE_CALL and _item(backends, call.i32(0)) in ("CudaBackend", "TensorRTBackend"):
                for index in dict.fromkeys(arguments):
                    if self._value(index).device == "cpu":
                        # A value without an earlier instruction, other than inputs and constants, is made by this one.
                        made = index not in known and not self._constant(index)
                        sums["staged_out" if made else "staged_in"] += self._bytes(index)
            known.update(arguments)
        for index in inputs:
            value = self._value(index)
            if value.device != "cpu" and not value.planned:
                sums["copied_in"] += self._bytes(index)
        return Moved(sums["staged_in"], sums["staged_out"], sums["copied_in"], sums["copied_out"])

    def _bytes(self, index: int) -> int:
        """Return the maximum bytes of a tensor; 0 for other values."""
        value = self._value(index)
        return math.prod(value.sizes, start=item_size(value.dtype)) if value.kind == "tensor" else 0

    def _constant(self, index: int) -> bool:
        inner = _item(self._values, index).table(1)
        return inner is not None and inner.u32(5) != 0

    def external(self) -> list[str]:
        tensors = (value.table(1) for value in self._values if value.u8(0) == _TENSOR)
        extras = (tensor.table(9) for tensor in tensors if tensor is not None)
        return [extra.string(1) for extra in extras if extra is not None and extra.i8(2) == 1]

    def _instructions(self) -> Iterator[tuple[int, Table, tuple[int, int]]]:
        """Yield the kind, the arguments and the place of each instruction that has arguments."""
        for chain, table in enumerate(self._plan.tables(5)):
            for number, instruction in enumerate(table.tables(2)):
                call = instruction.table(1)
                if call is not None:
                    yield instruction.u8(0), call, (chain, number)

    def _calls(self, wanted: int) -> list[Table]:
        return [call for kind, call, _ in self._instructions() if kind == wanted]

    def _delegate(self, delegate: Table, arguments: Sequence[int]) -> Delegate:
        reference = delegate.table(1)
        offset, size = (0, 0) if reference is None else _item(self._blobs[reference.i8(0) == 1], reference.u32(1))
        specs = tuple((spec.string(0), bytes(spec.u8s(1))) for spec in delegate.tables(2))
        return Delegate(delegate.string(0), size, offset, specs, tuple(map(self._value, arguments)))

    def _value(self, index: int) -> Value:
        value = _item(self._values, index)
        number = value.u8(0)
        kind: Kind = _KINDS[number - 1] if 1 <= number <= len(_KINDS) else "list"
        inner = value.table(1)
        if inner is None:
            return Value("none")
        if kind == "tensor":
            return _tensor(inner)
        constant: Constant = None
        if kind == "int":
            constant = inner.i64(0)
        elif kind == "bool":
            constant = inner.boolean(0)
        elif kind == "float":
            constant = inner.f64(0)
        elif kind == "string":
            constant = inner.string(0)
        return Value(kind, constant=constant)


def _tensor(tensor: Table) -> Value:
    number = tensor.i8(0)
    if number not in NAMES:
        raise Malformed(f"unknown element type {number}")
    sizes, order = tensor_sizes(tensor, 2, 3)
    extra = tensor.table(9)
    device = "cpu"
    if extra is not None and extra.i8(3):
        device = f"{_DEVICES.get(extra.i8(3), 'device')}:{extra.i8(4)}"
    planned = tensor.table(6) is not None
    return Value("tensor", NAMES[number], sizes, tensor.i8(8) != 0, order, device, planned)


def _dotted(name: str, overload: str) -> str:
    return f"{name}.{overload}" if overload else name


def _item(items: Sequence[_T], index: int) -> _T:
    if not 0 <= index < len(items):
        raise Malformed(f"index {index} of {len(items)}")
    return items[index]
