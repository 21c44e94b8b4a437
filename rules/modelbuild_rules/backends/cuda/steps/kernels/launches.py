"""Calls of Triton kernels written down instead of made: what a GPU needs to time them, gathered without one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from modelbuild.step import StepError
from modelbuild_rules.backends.cuda.steps.kernels.driver import Failed, Launch, Timer

_VALUE = re.compile(r"^\s*\w+ = generate_example_value\(.*\)$")
_RUN = re.compile(r"^\s*(\w+)\.run\((.*), stream=\w+\)$")


@dataclass(frozen=True, slots=True)
class Buffer:
    """Stands for a tensor on the GPU, as an argument of a kernel."""

    bytes: int


Call = Callable[[], None]
"""Calls a kernel through what Inductor makes for it."""


class Stopwatch:
    """Times calls on a GPU. What a call would launch comes by `launched`."""

    def __init__(self, card: Timer) -> None:
        self.card = card
        self._launch: Launch | None = None

    def launched(self, launch: Launch) -> None:
        self._launch = launch

    def times(self, calls: Sequence[Call | None]) -> dict[int, float]:
        """Microseconds by index, of the calls that can be timed. Raises StepError where all of them fail."""
        took: dict[int, float] = {}
        failure: Exception | None = None
        with self.card.alone():
            for index, call in enumerate(calls):
                try:
                    if call is not None:
                        call()
                        assert self._launch is not None
                        took[index] = self.card.time(self._launch)
                except Failed as failed:
                    failure = failed
        if failure is not None and not took:
            raise StepError(f"no candidate runs on {self.card.name}: {failure}")
        return took


class Launcher:
    """Stands for Triton's: hands on what would be launched."""

    def __init__(self, source: Any, metadata: Any, launched: Callable[[Launch], None]) -> None:
        self._types = list(source.signature.values())
        self._metadata = metadata
        self._launched = launched

    def __call__(
        self, x: int, y: int, z: int, stream: int, image: tuple[str, bytes], about: Any, data: Any, enter: Any,
        leave: Any, *values: Any,
    ) -> None:  # fmt: skip
        if self._metadata.num_ctas != 1:
            raise Failed("clusters of blocks are not timed")
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


def of_template(template: Any, kernel: Any) -> Call | None:
    """Makes the call of a matrix product's or convolution's candidate (TritonTemplateCaller), of which `kernel` is the
    compiled kernel. None for one that takes more than tensors: it is not timed."""
    request = template.bmreq
    if request.workspace_size is not None:
        return None
    metas = request.input_tensor_meta
    inputs = [Buffer(_bytes(each)) for each in (metas if isinstance(metas, list) else [metas])]
    output = request.output_tensor_meta
    (made,) = output if isinstance(output, list) else [output]
    (launcher,) = kernel.launchers
    return lambda: launcher(*inputs, Buffer(_bytes(made)), *request.extra_args, stream=0)


def arguments_of_kernels(calls: str) -> Mapping[str, Sequence[Any]]:
    """The arguments of each kernel, out of the code that Inductor writes for autotuning."""
    scope: dict[str, Any] = {"generate_example_value": _example}
    found: dict[str, Sequence[Any]] = {}
    import torch

    scope["torch"] = torch
    for line in calls.splitlines():
        if _VALUE.match(line):
            exec(line.strip(), scope)
        elif run := _RUN.match(line):
            found.setdefault(run[1], eval(f"[{run[2]}]", scope))
    return found


def of_configuration(launcher: Any, arguments: Sequence[Any]) -> Call:
    """Makes the call of one of a kernel's compiled configurations."""
    return lambda: launcher(*arguments, stream=0)


def _example(size: Any, stride: Any, device: Any, dtype: Any, offset: int = 0, allocated: Any = None) -> Buffer:
    elements = offset + 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    return Buffer(max(elements, 1) * dtype.itemsize)


def _bytes(meta: Any) -> int:
    return _example(meta.sizes, meta.strides, None, meta.dtype, meta.offset).bytes
