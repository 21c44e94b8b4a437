"""A loaded program: its description, its runs, and their latency, with GPUs, tensors in GPU memory, and CUDA graphs."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from modelbuild_runtime.checks import check_sums
from modelbuild_runtime.describe import Description, MethodDescription, Port
from modelbuild_runtime.dtypes import NAMES, numpy_type
from modelbuild_runtime.errors import InputError, did_you_mean
from modelbuild_runtime.files.pte import Moved
from modelbuild_runtime.latency import Latency, measured
from modelbuild_runtime.named import Inputs, check_constant, in_order
from modelbuild_runtime.native.exchange import DEFAULT_STREAM, View, from_bfloat16, torch_tensor, view_of
from modelbuild_runtime.native.library import Handle, RunOptions, Tensor


class Program:
    """A program. Its state between runs (such as a language model's cache) lives as long as this object. Threads may
    share it: it does one run at a time, and other threads wait until the run's outputs are returned."""

    def __init__(self, handle: Handle, description: Description) -> None:
        self._handle = handle
        self._description = description
        self._turn = threading.Lock()  # held from a run until its outputs are copied
        self._kept: dict[tuple[str, str, int], Any] = {}

    def describe(self) -> Description:
        """Return methods, inputs and outputs, backends and sizes."""
        return self._description

    def unmet_requirements(self) -> list[str]:
        """Return the requirements that this machine does not meet: a GPU, its driver, TensorRT's library."""
        return self._handle.unmet_requirements()

    def transfers(self) -> Moved:
        """Return the bytes that the last run of any thread moved between host and device."""
        found = self._handle.transfers()
        return Moved(*(getattr(found, name) for name in asdict(Moved())))

    def take_profile(self) -> str:
        """Return the events of all runs since the last call, as JSON (mb_take_profile), and forget them. Raises
        InputError for a program that was loaded without `profile`."""
        return self._handle.take_profile()

    def graph_counts(self) -> tuple[int, int]:
        """Return the number of runs with `cuda_graph` that were recorded as a graph, and of runs that launched a
        graph."""
        found = self._handle.graph_counts()
        return found.recorded, found.replayed

    def run(
        self,
        inputs: Inputs,
        method: str | None = None,
        *,
        outputs: Mapping[str, Any] | None = None,
        cuda_graph: bool = False,
    ) -> dict[str, Any]:
        """Run a method on tensors by name or in order: numpy arrays, torch tensors, or other tensors with DLPack.
        Return outputs.

        Tensors on a GPU are used in place, on torch's current stream if they are torch tensors, else on the default
        stream, without waiting for it. Outputs that the program leaves on a GPU are then torch tensors; all others are
        numpy arrays that the caller owns. `outputs` provides memory for outputs by name, and is returned for these
        outputs.

        With `cuda_graph` the second consecutive run on the same memory is recorded, and each later one is a single
        launch. Returned torch tensors are then the same in each run, and are overwritten.

        Raises InputError for inputs or outputs that do not match, ProgramError for other failures.
        """
        described = self._description.method(method)
        views = self._views(described, inputs)
        with self._turn:
            wanted = self._wanted(described, views, outputs or {}, cuda_graph)
            self._run(described, views, wanted, cuda_graph, _stream([*views, *wanted.values()]))
            return {port.name: self._output(i, port, wanted.get(i)) for i, port in enumerate(described.outputs)}

    def measure(
        self, inputs: Inputs, method: str | None = None, repeat: int = 10, warmup: int = 3, cuda_graph: bool = False
    ) -> Latency:
        """Run a method `warmup` times, then time `repeat` runs, each until its results are complete."""
        described = self._description.method(method)
        views = self._views(described, inputs)
        if any(view.gpu is not None for view in views) and "torch" in sys.modules:
            sys.modules["torch"].cuda.synchronize()

        def once() -> float:
            began = time.perf_counter_ns()
            self._run(described, views, wanted, cuda_graph, None)
            return (time.perf_counter_ns() - began) / 1e6

        with self._turn:
            wanted = self._wanted(described, views, {}, cuda_graph)
            return measured(once, repeat, warmup)

    def _views(self, described: MethodDescription, inputs: Inputs) -> list[View]:
        given = zip(described.inputs, in_order(described.inputs, inputs), strict=True)
        views = []
        sizes: dict[str, tuple[int, str]] = {}
        for port, value in given:
            if port.kind == "tensor":
                views.append(view_of(port.name, value, port.dtype))
                named = zip(port.shape, views[-1].shape, strict=False)  # the library checks the number of dimensions
                sizes |= {dim.name: (size, port.name) for dim, size in named if dim.dynamic and dim.name}
            else:
                check_constant(port, value)
        if sizes.keys() >= {dim.name for port in described.inputs for dim in port.shape if dim.dynamic and dim.name}:
            check_sums(described.inputs, sizes)
        return views

    def _wanted(
        self, described: MethodDescription, views: Sequence[View], outputs: Mapping[str, Any], keep: bool
    ) -> dict[int, View]:
        """Return memory for outputs: the caller's, or new torch tensors if the caller's inputs are torch tensors."""
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
    """Return the stream to run on: torch's current stream, the default stream, or None (the program's stream) for host
    memory."""
    on_gpu = [view for view in views if view.gpu is not None]
    for view in on_gpu:
        if torch_tensor(view.owner[0]):
            found: int = sys.modules["torch"].cuda.current_stream(view.gpu).cuda_stream
            return found
    return DEFAULT_STREAM if on_gpu else None
