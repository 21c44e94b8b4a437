"""Record calls of Triton kernels instead of making them, with all data that a GPU needs to time them later."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from modelbuild_rules.backends.cuda.steps.kernels.candidates import Call
from modelbuild_rules.backends.cuda.steps.kernels.timing import Launch, TimingError

# torch 2.15 makes storages, and views of the storages; 2.14 makes each argument separately.
_VALUE = re.compile(r"^\s*(\w+ = )(?:torch\.)?((?:generate_example_value|as_strided)\(.*\))$")
_RUN = re.compile(r"^\s*(\w+)\.run\((.*), stream=\w+\)$")


@dataclass(frozen=True, slots=True)
class Buffer:
    """Placeholder for a GPU tensor as a kernel's argument."""

    bytes: int
    itemsize: int


class Launcher:
    """Replacement of Triton's launcher that reports launches instead of making them."""

    def __init__(self, source: Any, metadata: Any, launched: Callable[[Launch], None]) -> None:
        self._types = list(source.signature.values())
        self._metadata = metadata
        self._launched = launched

    def __call__(
        self, x: int, y: int, z: int, stream: int, image: tuple[str, bytes], about: Any, data: Any, enter: Any,
        leave: Any, *values: Any,
    ) -> None:  # fmt: skip
        if self._metadata.num_ctas != 1:
            raise TimingError("clusters of blocks are not timed")
        arguments = [
            (kind, float(value.bytes) if isinstance(value, Buffer) else value)
            for kind, value in zip(self._types, values, strict=True)
            if kind != "constexpr"
        ]
        scratch = x * y * z * self._metadata.global_scratch_size
        arguments += [("*i8", scratch), ("*i8", 0)]
        name, cubin = image
        threads, shared = 32 * self._metadata.num_warps, self._metadata.shared
        self._launched(Launch(name, cubin, (x, y, z), threads, shared, tuple(arguments)))


def template_call(template: Any, kernel: Any) -> Call | None:
    """Return the call of a matrix product's or convolution's candidate (TritonTemplateCaller) with its compiled kernel.
    Return None if it needs a workspace in addition to tensors; it is not timed."""
    request = template.bmreq
    if request.workspace_size is not None:
        return None
    metas = request.input_tensor_meta
    inputs = [_of(each) for each in (metas if isinstance(metas, list) else [metas])]
    output = request.output_tensor_meta
    (made,) = output if isinstance(output, list) else [output]
    (launcher,) = kernel.launchers
    return lambda: launcher(*inputs, _of(made), *request.extra_args, stream=0)


def arguments_of_kernels(calls: str) -> Mapping[str, Sequence[Any]]:
    """Return each kernel's arguments, from the code that Inductor generates for autotuning."""
    import torch

    scope: dict[str, Any] = {"generate_example_value": _example, "as_strided": _view, "torch": torch}
    found: dict[str, Sequence[Any]] = {}
    for line in calls.splitlines():
        if value := _VALUE.match(line):
            exec(value[1] + value[2], scope)
        elif run := _RUN.match(line):
            found.setdefault(run[1], eval(f"[{run[2]}]", scope))
    return found


def configuration_call(launcher: Any, arguments: Sequence[Any]) -> Call:
    """Return the call of one of a kernel's compiled configurations."""
    return lambda: launcher(*arguments, stream=0)


def _example(size: Any, stride: Any, device: Any, dtype: Any, offset: int = 0, allocated: Any = None) -> Buffer:
    return _buffer(size, stride, offset, dtype.itemsize)


def _view(storage: Buffer, size: Any, stride: Any, offset: int) -> Buffer:
    return _buffer(size, stride, offset, storage.itemsize)


def _of(meta: Any) -> Buffer:
    return _buffer(meta.sizes, meta.strides, meta.offset, meta.dtype.itemsize)


def _buffer(size: Any, stride: Any, offset: int, itemsize: int) -> Buffer:
    elements = offset + 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    return Buffer(max(elements, 1) * itemsize, itemsize)
