"""A program on the C++ runtime: GPUs, tensors that lie on them, CUDA graphs."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from modelbuild_runtime.describe import Description, MethodDescription, Port
from modelbuild_runtime.dtypes import NAMES, numpy_type
from modelbuild_runtime.errors import InputError, did_you_mean
from modelbuild_runtime.exchange import DEFAULT_STREAM, View, from_bfloat16, torch_tensor, view_of
from modelbuild_runtime.latency import Latency, measured
from modelbuild_runtime.named import Inputs, check_constant, in_order
from modelbuild_runtime.native import Handle, RunOptions, Tensor
from modelbuild_runtime.program import Program
from modelbuild_runtime.pte import Moved


class NativeProgram(Program):
    """A program on the C++ runtime. Not for several threads at once."""

    def __init__(
        self, library: Path, pte: Path, data: Sequence[Path], description: Description, verify: bool = True
    ) -> None:
        super().__init__(pte, None, description)
        self._handle = Handle(library, pte, data, verify)
        self._kept: dict[tuple[str, str, int], Any] = {}

    def transfers(self) -> Moved:
        """What the last run moved between host and device."""
        found = self._handle.transfers()
        return Moved(*(getattr(found, name) for name in asdict(Moved())))

    def graph_counts(self) -> tuple[int, int]:
        """Runs with `cuda_graph` that were recorded as a graph, and those that were done by launching one."""
        found = self._handle.graph_counts()
        return found.recorded, found.replayed

    def run(
        self,
        inputs: Inputs,
        method: str = "forward",
        *,
        outputs: Mapping[str, Any] | None = None,
        cuda_graph: bool = False,
    ) -> dict[str, Any]:
        """Run a method on tensors by name, or in order: numpy's, torch's, or any that speaks DLPack.

        Tensors on a GPU are used where they lie, on torch's current stream if they are torch's, else on the default
        stream, and nothing is waited for. Outputs that the program leaves on a GPU are then torch tensors; everything
        else is a numpy array of the caller's own. `outputs` names memory to write outputs to instead, and is returned.

        With `cuda_graph` the second run in a row on the same memory is recorded, and later ones are one launch; torch
        tensors that are returned are then the same each time, and are overwritten.

        Raises InputError for what does not fit, ProgramError otherwise.
        """
        described = self._description.method(method)
        views = self._views(described, inputs)
        wanted = self._wanted(described, views, outputs or {}, cuda_graph)
        self._run(described, views, wanted, cuda_graph, _stream([*views, *wanted.values()]))
        return {port.name: self._output(i, port, wanted.get(i)) for i, port in enumerate(described.outputs)}

    def measure(
        self, inputs: Inputs, method: str = "forward", repeat: int = 10, warmup: int = 3, cuda_graph: bool = False
    ) -> Latency:
        """Run a method `warmup` times, then `repeat` times with the clock on, each until its results are there."""
        described = self._description.method(method)
        views = self._views(described, inputs)
        wanted = self._wanted(described, views, {}, cuda_graph)
        if any(view.gpu is not None for view in views) and "torch" in sys.modules:
            sys.modules["torch"].cuda.synchronize()

        def once() -> float:
            began = time.perf_counter_ns()
            self._run(described, views, wanted, cuda_graph, None)
            return (time.perf_counter_ns() - began) / 1e6

        return measured(once, repeat, warmup)

    def _views(self, described: MethodDescription, inputs: Inputs) -> list[View]:
        given = zip(described.inputs, in_order(described.inputs, inputs), strict=True)
        views = []
        for port, value in given:
            if port.kind == "tensor":
                views.append(view_of(port.name, value, port.dtype))
            else:
                check_constant(port, value)
        return views

    def _wanted(
        self, described: MethodDescription, views: Sequence[View], outputs: Mapping[str, Any], keep: bool
    ) -> dict[int, View]:
        """Memory for outputs: the caller's, or new torch tensors where the caller's inputs are such."""
        names = [port.name for port in described.outputs]
        for name in outputs:
            if name not in names:
                raise InputError(f"no output '{name}'{did_you_mean(name, names)}; outputs: {', '.join(names)}")
        on_torch = any(view.gpu is not None and torch_tensor(view.owner[0]) for view in views)
        wanted = {}
        for index, port in enumerate(described.outputs):
            if port.name in outputs:
                wanted[index] = view_of(port.name, outputs[port.name], port.dtype)
            elif on_torch and port.kind == "tensor" and port.device != "cpu" and not port.planned:
                wanted[index] = view_of(port.name, self._new(described.name, port, keep), port.dtype)
        return wanted

    def _new(self, method: str, port: Port, keep: bool) -> Any:
        torch = sys.modules["torch"]
        key = (method, port.name, torch.cuda.current_stream(port.device).cuda_stream)
        if keep and key in self._kept:
            return self._kept[key]
        shape = [dim.max for dim in port.shape]
        found = torch.empty(shape, dtype=getattr(torch, port.dtype), device=port.device)
        if keep:
            self._kept[key] = found
        return found

    def _run(
        self,
        described: MethodDescription,
        views: Sequence[View],
        wanted: Mapping[int, View],
        cuda_graph: bool,
        stream: int | None,
    ) -> None:
        options = RunOptions(cuda_graph=cuda_graph)
        if stream is not None:
            options.use_stream, options.stream = 1, stream
        if wanted:
            memory = [wanted[i].tensor() if i in wanted else Tensor() for i in range(len(described.outputs))]
            options.outputs, options.output_count = (Tensor * len(memory))(*memory), len(memory)
        self._handle.run(described.name, [view.tensor() for view in views], options)

    def _output(self, index: int, port: Port, wanted: View | None) -> Any:
        if port.kind == "none":
            return np.asarray(None)
        tensor = self._handle.output(index)
        shape = tuple(tensor.shape[: tensor.rank])
        if wanted is not None:
            value = wanted.owner[0] if isinstance(wanted.owner, tuple) else wanted.owner
            if shape == wanted.shape:
                return value
            return value.reshape(-1)[: int(np.prod(shape))].reshape(shape)
        dtype = NAMES[tensor.dtype]
        found = np.empty(shape, np.uint16 if dtype == "bfloat16" else numpy_type(dtype))
        if found.size:
            self._handle.copy(found.ctypes.data, tensor, found.nbytes)
        return from_bfloat16(found) if dtype == "bfloat16" else found


def _stream(views: Sequence[View]) -> int | None:
    """The stream to run on: torch's current one, the default one, or for what lies on the host the program's own."""
    on_gpu = [view for view in views if view.gpu is not None]
    for view in on_gpu:
        if torch_tensor(view.owner[0]):
            found: int = sys.modules["torch"].cuda.current_stream(view.gpu).cuda_stream
            return found
    return DEFAULT_STREAM if on_gpu else None
