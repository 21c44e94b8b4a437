"""Record a module's results before it is exported, for the comparison with its program.

A folder contains `calls.json` (RecordedCalls of model/documents.py) and `tensors.safetensors`: the inputs `0.in.0`, ...
and the outputs `0.out.0`, ... of each call. bfloat16 is stored as float32, which represents all its values; outputs
that are None are omitted. The calls are successive: the second starts with the state that the first left.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from modelbuild_rules.model.steps.calls.drawn import EXAMPLE, DrawnCall
from modelbuild_rules.model.steps.calls.files import CALLS, TENSORS
from modelbuild_rules.model.steps.eager.results import plain

_MOST_BYTES = 256 << 20
"""The size of all outputs after which no more calls are recorded."""

_SECONDS = 120
"""The time limit of a call in a child process."""

Module = Callable[[Sequence[Tensor]], Any]
"""Calls a module with its inputs in the declared order."""


@dataclass(frozen=True)
class Call:
    """A call: its name, the inputs, and the stored outputs with their types in the module."""

    name: str
    inputs: tuple[Tensor, ...]
    outputs: list[Tensor | None]
    dtypes: list[str]


@dataclass
class Recording:
    """The calls of a module. `random` is true if its outputs vary from call to call. `failure` is the first exception
    of the module, which refused some values."""

    calls: list[Call] = field(default_factory=list)
    random: bool = False
    failure: Exception | None = None


def record(owner: torch.nn.Module, module: Module, drawn: Iterable[DrawnCall]) -> Recording:
    """Return the recorded calls. Leaves the buffers of `owner` unchanged."""
    found = Recording()
    initial = buffers(owner)
    try:
        for each in drawn:
            call = _first_accepted(owner, module, each, found)
            if call is not None:
                found.calls.append(call)
            if sum(map(_size, found.calls)) > _MOST_BYTES:
                break
    finally:
        restore(owner, initial)
    return found


def _first_accepted(owner: torch.nn.Module, module: Module, drawn: DrawnCall, found: Recording) -> Call | None:
    """Return the call with the first inputs that the module does not refuse."""
    for inputs in drawn.choices:
        before = buffers(owner)
        try:
            if drawn.name != EXAMPLE and any(map(_is_whole, inputs)):
                _survive(module, inputs)
            outputs, dtypes = called(module, inputs)
        except Exception as error:  # of the module's own code
            restore(owner, before)
            found.failure = found.failure or error
            continue
        return Call(drawn.name, inputs, outputs, dtypes)
    return None


def _is_whole(value: Tensor) -> bool:
    return not (value.is_floating_point() or value.is_complex() or value.dtype == torch.bool)


def _survive(module: Module, inputs: Sequence[Tensor]) -> None:
    """Raise RuntimeError if a call ends the process, as some operators of eager mode do for an index out of bounds: a
    child process makes the call first."""
    pid = os.fork()
    if pid == 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        torch.set_num_threads(1)  # other threads are not copied
        signal.alarm(_SECONDS)
        with contextlib.suppress(BaseException):
            called(module, inputs)
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        raise RuntimeError(f"the call ended its process by signal {os.WTERMSIG(status)}")


def called(module: Module, inputs: Sequence[Tensor]) -> tuple[list[Tensor | None], list[str]]:
    """Call a module, and return its outputs as they are stored, with their types."""
    with torch.no_grad():
        leaves = pytree.tree_leaves(plain(module([each.clone() for each in inputs])))
    return [_stored(each) for each in leaves], [_dtype(each) for each in leaves]


def _size(call: Call) -> int:
    return sum(each.nbytes for each in call.outputs if each is not None)


def _stored(value: Any) -> Tensor | None:
    if value is None:
        return None
    tensor = value.detach() if isinstance(value, Tensor) else torch.tensor(value)
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).clone().contiguous()


def _dtype(value: Any) -> str:
    return str(value.dtype).removeprefix("torch.") if isinstance(value, Tensor) else type(value).__name__


Buffers = Mapping[str, tuple[Tensor, Tensor]]
"""Buffers of a module by name: each tensor, and a copy of its values."""


def buffers(owner: torch.nn.Module) -> Buffers:
    """Return a module's current buffers."""
    return {name: (buffer, buffer.clone()) for name, buffer in owner.named_buffers()}


def restore(owner: torch.nn.Module, before: Buffers) -> None:
    """Restore a module's buffers."""
    for name, (buffer, values) in before.items():
        with torch.no_grad():
            buffer.copy_(values)
        if not isinstance(owner, torch.jit.ScriptModule):
            path, _, leaf = name.rpartition(".")
            setattr(owner.get_submodule(path), leaf, buffer)


def write(recording: Recording, facts: Mapping[str, Any], folder: Path) -> None:
    """Write a recording. `facts`: the other fields of RecordedCalls."""
    calls = [] if recording.random else recording.calls
    tensors: dict[str, Tensor] = {}
    for number, call in enumerate(calls):
        for place, each in enumerate(call.inputs):
            value = each.float() if each.dtype == torch.bfloat16 else each
            tensors[f"{number}.in.{place}"] = value.clone().contiguous()
        tensors |= {f"{number}.out.{place}": each for place, each in enumerate(call.outputs) if each is not None}
    document = {
        "version": 1,
        "calls": [each.name for each in calls],
        "random": recording.random,
        "outputs": len(recording.calls[0].outputs) if recording.calls else 0,
        **facts,
    }
    (folder / CALLS).write_text(json.dumps(document, indent=1) + "\n")
    from safetensors.torch import save_file  # not in the keys of actions that read no calls

    save_file(tensors, folder / TENSORS)


def first_inputs(folder: Path, dtypes: Sequence[torch.dtype]) -> list[Tensor] | None:
    """Return the inputs of the first call, in the module's types; None if no call was recorded."""
    if not json.loads((folder / CALLS).read_bytes())["calls"]:
        return None
    from safetensors.torch import load_file

    tensors = load_file(folder / TENSORS)
    return [tensors[f"0.in.{place}"].to(dtype) for place, dtype in enumerate(dtypes)]
