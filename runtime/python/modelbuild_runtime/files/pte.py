"""Read a .pte's methods, their inputs and outputs, delegates and sizes. Torch-free.

The format is executorch/schema/program.fbs (identifier ET12) behind an optional extended header ("eh00") at byte 8, as
executorch 1.5.1 writes it.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from modelbuild_runtime.dtypes import NAMES, item_size
from modelbuild_runtime.files.data_file import opened
from modelbuild_runtime.files.flatbuffer import Buffer, Malformed, Table
from modelbuild_runtime.files.manifest import read_manifest
from modelbuild_runtime.files.schema import (
    BackendDelegate,
    BackendDelegateDataReference,
    BackendDelegateInlineData,
    Bool,
    Chain,
    CompileSpec,
    DataLocation,
    DelegateCall,
    DeviceType,
    Double,
    EValue,
    ExecutionPlan,
    ExtraTensorInfo,
    Instruction,
    InstructionArguments,
    Int,
    IntList,
    KernelCall,
    KernelTypes,
    Operator,
    OptionalTensorList,
    Program,
    String,
    Tensor,
    TensorDataLocation,
    TensorList,
    TensorShapeDynamism,
)
from modelbuild_runtime.files.segments import segment_extents, tensor_sizes

Kind: TypeAlias = Literal["tensor", "none", "int", "bool", "float", "string", "list"]
Constant: TypeAlias = int | float | bool | str | None

# Members of the union KernelTypes; other members are lists.
_KINDS: Mapping[int, Kind] = {
    KernelTypes.Null: "none",
    KernelTypes.Int: "int",
    KernelTypes.Bool: "bool",
    KernelTypes.Double: "float",
    KernelTypes.Tensor: "tensor",
    KernelTypes.String: "string",
}
# Lists whose items are numbers of values.
_LISTS = {
    KernelTypes.IntList: IntList.items,
    KernelTypes.TensorList: TensorList.items,
    KernelTypes.OptionalTensorList: OptionalTensorList.items,
}
_T = TypeVar("_T")

Extent: TypeAlias = tuple[int, int]
"""An offset in the file, and a size in bytes."""

_DEVICES = {DeviceType.CPU: "cpu", DeviceType.CUDA: "cuda"}

_COPIES = {"et_copy::_h2d_copy.out": "copied_in", "et_copy::_d2h_copy.out": "copied_out"}


@dataclass(frozen=True, slots=True)
class Value:
    """An input or output of a method.

    sizes      of a tensor; if `bounded`, each may be smaller
    dim_order  dimensions from the outermost in memory to the innermost
    device     the device of its memory ("cpu", "cuda:0")
    planned    true if its memory is the program's own, false if the caller's
    constant   of a number or string: the value with which the program was made, and the only value that it accepts
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
        segments = segment_extents(program.tables(Program.segments), base, len(data))
        inline = tuple(
            blob.extent(BackendDelegateInlineData.data) for blob in program.tables(Program.backend_delegate_data)
        )
        plans = [_Plan(plan, segments, inline) for plan in program.tables(Program.execution_plan)]
        if not plans:
            raise Malformed("it has no methods")
        external = {name for plan in plans for name in plan.external()}
        return ProgramFile(tuple(plan.method() for plan in plans), len(data), tuple(sorted(external)), manifest)


# The fields of calls: what is called, and the arguments.
_CALLS = {
    InstructionArguments.KernelCall: (KernelCall.op_index, KernelCall.args),
    InstructionArguments.DelegateCall: (DelegateCall.delegate_index, DelegateCall.args),
}


class _Instruction(NamedTuple):
    """A call of a kernel, or of a delegate, by its index; `place` is as in Call."""

    is_kernel: bool
    index: int
    arguments: tuple[int, ...]
    place: tuple[int, int]


class _Plan:
    """An ExecutionPlan, from which a Method is read."""

    def __init__(self, plan: Table, segments: tuple[Extent, ...], inline: tuple[Extent, ...]) -> None:
        self._plan = plan
        self._blobs = (inline, segments)
        self._values = list(plan.tables(ExecutionPlan.values))

    def method(self) -> Method:
        operators = self._plan.tables(ExecutionPlan.operators)
        names = [_dotted(operator.string(Operator.name), operator.string(Operator.overload)) for operator in operators]
        calls = Counter(_item(names, each.index) for each in self._instructions() if each.is_kernel)
        delegates = enumerate(self._plan.tables(ExecutionPlan.delegates))
        arguments = {each.index: each.arguments for each in self._instructions() if not each.is_kernel}
        return Method(
            name=self._plan.string(ExecutionPlan.name),
            inputs=tuple(self._value(i) for i in self._plan.integers(ExecutionPlan.inputs)),
            outputs=tuple(self._value(i) for i in self._plan.integers(ExecutionPlan.outputs)),
            delegates=tuple(self._delegate(delegate, arguments.get(i, ())) for i, delegate in delegates),
            operators=tuple(sorted(calls.items())),
            planned=self._planned(),
            most=self._moved(names),
            calls=tuple(self._in_order(names)),
        )

    def _in_order(self, names: Sequence[str]) -> Iterator[Call]:
        """Yield the calls. A tensor is made by the first call that has it as an argument, unless it is an input or a
        constant; another value is made by the call that has it as its last argument."""
        inputs = set(self._plan.integers(ExecutionPlan.inputs))
        makers: dict[int, int] = {}
        for number, call in enumerate(self._instructions()):
            arguments = list(self._expanded(call.arguments))
            after = {makers[each] for each in arguments if each in makers}
            made = [each for each in arguments if self._kind(each) == KernelTypes.Tensor or each == arguments[-1]]
            new = [each for each in made if each not in makers and each not in inputs and not self._constant(each)]
            makers.update(dict.fromkeys(new, number))
            name, delegate = (_item(names, call.index), None) if call.is_kernel else ("", call.index)
            yield Call(name, delegate, tuple(sorted(after)), call.place, not inputs.isdisjoint(arguments))

    def _kind(self, index: int) -> int:
        return _item(self._values, index).integer(EValue.val_type)

    def _expanded(self, arguments: Sequence[int]) -> Iterator[int]:
        """Yield the numbers of values, including values in lists."""
        for index in arguments:
            yield index
            inner, items = _item(self._values, index).table(EValue.val), _LISTS.get(self._kind(index))
            if inner is not None and items is not None:
                yield from (each for each in inner.integers(items) if each >= 0)

    def _planned(self) -> int:
        sizes = self._plan.integers(ExecutionPlan.non_const_buffer_sizes)
        if any(size < 0 for size in sizes):
            raise Malformed("its plan of memory cannot be counted")
        return sum(sizes)

    def _moved(self, names: Sequence[str]) -> Moved:
        """Return the bytes that a run on host memory moves, summed over all instructions."""
        inputs = self._plan.integers(ExecutionPlan.inputs)
        backends = [each.string(BackendDelegate.id) for each in self._plan.tables(ExecutionPlan.delegates)]
        sums: Counter[str] = Counter()
        known = set(inputs)
        for call in self._instructions():
            arguments = call.arguments
            if call.is_kernel and arguments:
                sums[_COPIES.get(_item(names, call.index), "")] += self._bytes(arguments[0])
            elif not call.is_kernel and _item(backends, call.index) in ("CudaBackend", "TensorRTBackend"):
                for index in dict.fromkeys(arguments):
                    if self._value(index).device == "cpu":
                        # This instruction makes any value without an earlier instruction that is not an input or a
                        # constant.
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
        inner = _item(self._values, index).table(EValue.val)
        return inner is not None and inner.integer(Tensor.data_buffer_idx) != 0

    def external(self) -> list[str]:
        values = (value for value in self._values if value.integer(EValue.val_type) == KernelTypes.Tensor)
        tensors = (value.table(EValue.val) for value in values)
        extras = (tensor.table(Tensor.extra_tensor_info) for tensor in tensors if tensor is not None)
        return [
            extra.string(ExtraTensorInfo.fully_qualified_name)
            for extra in extras
            if extra is not None and extra.integer(ExtraTensorInfo.location) == TensorDataLocation.EXTERNAL
        ]

    def _instructions(self) -> Iterator[_Instruction]:
        """Yield the calls of kernels and delegates, in the order in which a run makes them."""
        for chain, table in enumerate(self._plan.tables(ExecutionPlan.chains)):
            for number, instruction in enumerate(table.tables(Chain.instructions)):
                kind, call = instruction.integer(Instruction.instr_args_type), instruction.table(Instruction.instr_args)
                if call is not None and kind in _CALLS:
                    index, arguments = _CALLS[kind]
                    is_kernel = kind == InstructionArguments.KernelCall
                    yield _Instruction(is_kernel, call.integer(index), call.integers(arguments), (chain, number))

    def _delegate(self, delegate: Table, arguments: Sequence[int]) -> Delegate:
        reference = delegate.table(BackendDelegate.processed)
        offset, size = 0, 0
        if reference is not None:
            outside = reference.integer(BackendDelegateDataReference.location) == DataLocation.SEGMENT
            offset, size = _item(self._blobs[outside], reference.integer(BackendDelegateDataReference.index))
        specs = tuple(
            (spec.string(CompileSpec.key), bytes(spec.integers(CompileSpec.value)))
            for spec in delegate.tables(BackendDelegate.compile_specs)
        )
        backend = delegate.string(BackendDelegate.id)
        return Delegate(backend, size, offset, specs, tuple(map(self._value, arguments)))

    def _value(self, index: int) -> Value:
        value = _item(self._values, index)
        kind = _KINDS.get(value.integer(EValue.val_type), "list")
        inner = value.table(EValue.val)
        if inner is None:
            return Value("none")
        if kind == "tensor":
            return _tensor(inner)
        constant: Constant = None
        if kind == "int":
            constant = inner.integer(Int.int_val)
        elif kind == "bool":
            constant = bool(inner.number(Bool.bool_val))
        elif kind == "float":
            constant = float(inner.number(Double.double_val))
        elif kind == "string":
            constant = inner.string(String.string_val)
        return Value(kind, constant=constant)


def _tensor(tensor: Table) -> Value:
    number = tensor.integer(Tensor.scalar_type)
    if number not in NAMES:
        raise Malformed(f"unknown element type {number}")
    sizes, order = tensor_sizes(tensor, Tensor.sizes, Tensor.dim_order)
    extra = tensor.table(Tensor.extra_tensor_info)
    device = "cpu"
    if extra is not None and (kind := extra.integer(ExtraTensorInfo.device_type)) != DeviceType.CPU:
        device = f"{_DEVICES.get(kind, 'device')}:{extra.integer(ExtraTensorInfo.device_index)}"
    bounded = tensor.integer(Tensor.shape_dynamism) != TensorShapeDynamism.STATIC
    return Value("tensor", NAMES[number], sizes, bounded, order, device, tensor.has(Tensor.allocation_info))


def _dotted(name: str, overload: str) -> str:
    return f"{name}.{overload}" if overload else name


def _item(items: Sequence[_T], index: int) -> _T:
    if not 0 <= index < len(items):
        raise Malformed(f"index {index} of {len(items)}")
    return items[index]
