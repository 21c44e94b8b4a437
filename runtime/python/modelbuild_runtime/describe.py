"""Describe a program: its methods with named inputs and outputs, backends and sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from modelbuild_runtime.errors import InputError, ProgramError, did_you_mean, one_line
from modelbuild_runtime.files.contents import NONE, Contents, contents
from modelbuild_runtime.files.pte import Constant, Kind, Method, Moved, ProgramFile, Value
from modelbuild_runtime.files.signature import Named, Signature, signatures_beside
from modelbuild_runtime.shapes import Dim, shape_text


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output.

    shape      of a tensor, in the model's order of dimensions
    dim_order  the order of dimensions in memory
    planned    true if its memory is the program's own, false if the caller's
    range      lowest and highest value of the model's declaration; None if there is none
    constant   of an input that is not a tensor: the only value that the program accepts
    """

    name: str
    kind: Kind
    dtype: str = ""
    shape: tuple[Dim, ...] = ()
    dim_order: tuple[int, ...] = ()
    device: str = "cpu"
    planned: bool = False
    range: tuple[float, float] | None = None
    constant: Constant = None

    def __str__(self) -> str:
        if self.kind != "tensor":
            return f"{self.name}: {self.kind}" + ("" if self.constant is None else f" = {self.constant!r}")
        where = "" if self.device == "cpu" else f" on {self.device}"
        return f"{self.name}: {self.dtype}{shape_text(self.shape)}{where}"


@dataclass(frozen=True, slots=True)
class MethodDescription:
    """A method.

    delegates      (backend id, number of the method's parts that it runs, bytes of their blobs)
    operators      number of calls of each kernel outside delegates
    planned_bytes  memory for activations
    most           upper bound of the bytes that a run on host memory moves
    """

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    delegates: tuple[tuple[str, int, int], ...]
    operators: tuple[tuple[str, int], ...]
    planned_bytes: int
    most: Moved


@dataclass(frozen=True, slots=True)
class Description:
    """A program.

    bytes     size of the .pte
    data      its .ptd files with their bytes
    external  tensors in them
    contents  the device, versions and parts in its manifest
    """

    path: str
    bytes: int
    data: tuple[tuple[str, int], ...]
    external: tuple[str, ...]
    methods: tuple[MethodDescription, ...]
    contents: Contents = NONE

    def method(self, name: str | None = None) -> MethodDescription:
        """Return a method: by default the only method, or `forward`. Raises InputError if there is none."""
        if name is None and len(self.methods) == 1:
            return self.methods[0]
        for method in self.methods:
            if method.name == (name or "forward"):
                return method
        known = [method.name for method in self.methods]
        problem = "several methods" if name is None else f"no method '{name}'"
        raise InputError(f"{self.path}: {problem}; it has: {', '.join(known)}{did_you_mean(name or '', known)}")

    def to_json(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "bytes": self.bytes,
            "data": [{"path": path, "bytes": size} for path, size in self.data],
            "methods": [_method_json(method) for method in self.methods],
            **self.contents.to_json(),
        }

    def __str__(self) -> str:
        lines = [f"{self.path}: {self.bytes:,} bytes"]
        lines += [f"  with {path}: {size:,} bytes" for path, size in self.data]
        lines += [f"  {line}" for line in self.contents.lines()]
        for method in self.methods:
            lines.append(f"  method {method.name}, {method.planned_bytes:,} bytes of activations")
            lines += [f"    input  {port}" for port in method.inputs]
            lines += [f"    output {port}" for port in method.outputs]
            lines += [f"    {backend}: {_times(n, 'part')}, {size:,} bytes" for backend, n, size in method.delegates]
            if method.most != Moved():
                lines.append(f"    a run on host memory moves at most {_moved_text(method.most)}")
            calls = sum(n for _, n in method.operators)
            if calls:
                lines.append(
                    f"    portable kernels: {_times(calls, 'call')} of {_times(len(method.operators), 'operator')}"
                )
        return "\n".join(map(one_line, lines))


def describe(path: Path, data: Sequence[Path], program: ProgramFile) -> Description:
    """Return the description from a program's files. The signatures of methods are in the program's manifest, or else
    in a file next to it.

    Raises ProgramError if the signature is another program's.
    """
    facts = contents(program.manifest, path)
    signatures = facts.signature or signatures_beside(path)
    return Description(
        path=str(path),
        bytes=program.size,
        data=tuple((str(file), file.stat().st_size) for file in data),
        external=program.external,
        methods=tuple(_method(path, method, signatures.get(method.name)) for method in program.methods),
        contents=facts,
    )


def _method(path: Path, method: Method, signature: Signature | None) -> MethodDescription:
    parts = Counter(delegate.backend for delegate in method.delegates)
    sizes: Counter[str] = Counter()
    for delegate in method.delegates:
        sizes[delegate.backend] += delegate.size
    try:
        inputs = _ports("input", method.inputs, None if signature is None else signature.inputs)
        outputs = _ports("output", method.outputs, None if signature is None else signature.outputs)
    except ProgramError as error:
        raise ProgramError(f"{path}: its signature belongs to another program: {error}") from None
    return MethodDescription(
        name=method.name,
        inputs=inputs,
        outputs=outputs,
        delegates=tuple((backend, parts[backend], sizes[backend]) for backend in sorted(parts)),
        operators=method.operators,
        planned_bytes=method.planned,
        most=method.most,
    )


def _ports(what: str, values: tuple[Value, ...], named: tuple[Named, ...] | None) -> tuple[Port, ...]:
    if named is None:
        return tuple(_port(f"{what}{i}", value, None) for i, value in enumerate(values))
    tensors = sum(value.kind == "tensor" for value in values)
    if len(named) == len(values):
        pairs = list(zip(values, named, strict=True))
    elif len(named) == tensors:
        names = iter(named)
        pairs = [(v, next(names) if v.kind == "tensor" else None) for v in values]  # type: ignore[misc]
    else:
        raise ProgramError(f"it names {_times(len(named), what)}, the program has {len(values)}")
    ports = tuple(
        _port(f"{what}{i}" if declared is None else declared.name, value, declared)
        for i, (value, declared) in enumerate(pairs)
    )
    if not all(port.name for port in ports):
        raise ProgramError(f"an {what} has no name")
    return ports


def _port(name: str, value: Value, declared: Named | None) -> Port:
    if value.kind != "tensor":
        return Port(name, value.kind, constant=value.constant)
    low = 0 if value.bounded else None
    shape = tuple(Dim(size if low is None else low, size) for size in value.sizes)
    span = None
    if declared is not None:
        span = declared.range
        if declared.dtype != value.dtype or len(declared.shape) != len(shape):
            raise ProgramError(
                f"'{name}' is {declared.dtype} of rank {len(declared.shape)} there and {value.dtype} of rank"
                f" {len(shape)} in the program"
            )
        shape = tuple(_narrowed(dim, said, declared) for dim, said in zip(shape, declared.shape, strict=True))
    return Port(name, "tensor", value.dtype, shape, value.dim_order, value.device, value.planned, span)


def _narrowed(dim: Dim, size: int | str, declared: Named) -> Dim:
    """Return a dimension from the program, which has upper bounds only, and from the signature."""
    if isinstance(size, int):
        if not dim.min <= size <= dim.max:
            raise ProgramError(f"a dimension of '{declared.name}' is {size} there and {dim} in the program")
        return Dim.fixed(size)
    bound = declared.dynamic.get(size)
    if bound is None:  # an expression of names, or a size that depends on data
        return Dim(dim.min, dim.max, size)
    return replace(bound, min=max(dim.min, bound.min), max=min(dim.max, bound.max))


def _method_json(method: MethodDescription) -> dict[str, Any]:
    return {
        "name": method.name,
        "inputs": [_port_json(port) for port in method.inputs],
        "outputs": [_port_json(port) for port in method.outputs],
        "delegates": [{"backend": b, "parts": n, "bytes": size} for b, n, size in method.delegates],
        "operators": dict(method.operators),
        "planned_bytes": method.planned_bytes,
        "moved_at_most": asdict(method.most),
    }


def _port_json(port: Port) -> dict[str, Any]:
    if port.kind != "tensor":
        return {"name": port.name, "kind": port.kind, "constant": port.constant}
    shape = [_dim_json(dim) if dim.dynamic else dim.max for dim in port.shape]
    found: dict[str, Any] = {
        "name": port.name,
        "kind": port.kind,
        "dtype": port.dtype,
        "shape": shape,
        "device": port.device,
        "planned": port.planned,
    }
    if port.range is not None:
        found["range"] = list(port.range)
    return found


def _dim_json(dim: Dim) -> dict[str, Any]:
    found: dict[str, Any] = {"name": dim.name, "min": dim.min, "max": dim.max}
    return {**found, "size": dim.formula} if dim.terms else found


def _moved_text(most: Moved) -> str:
    there, back = most.copied_in + most.staged_in, most.copied_out + most.staged_out
    staged = most.staged_in + most.staged_out
    return f"{there:,} bytes to the device and {back:,} back, {staged:,} of them staged by delegates"


def _times(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
