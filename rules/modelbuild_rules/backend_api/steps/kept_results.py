"""Compute the type and shape of a node's results once for all of executorch's passes.

Each pass interprets the whole graph, which takes milliseconds for a node whose size depends on values. With the same
arguments (the same objects) an operator has the same results, so this module reuses the results of the previous pass.
If a pass changes an operator but keeps the type and constant shape of its result, later operators still get the same
arguments.

A private name of executorch is patched temporarily; executorch_private.py lists it. Of torch:
torch._subclasses.fake_tensor.FakeTensor (constant, fake_mode), ShapeEnv.suppress_guards, checked on torch 2.14.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest.mock import patch
from weakref import WeakKeyDictionary

import torch
from executorch.exir.pass_base import _ExportPassBase
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree

from modelbuild_rules.backend_api.steps.aten import aten_operator


@contextmanager
def computed_once() -> Iterator[None]:
    """Keep the results of operators from one pass to the next while the context lasts."""
    kept = _Kept()
    interpret = _ExportPassBase._fx

    def interpreted(callback: Any, kind: str, target: Any, args: Any, kwargs: Any, meta: Any) -> Any:
        plain = callback.interpreter
        callback.interpreter = _Interpreter(plain, kept, callback.tracer.graph, meta.data.get("val"))
        try:
            return interpret(callback, kind, target, args, kwargs, meta)
        finally:
            callback.interpreter = plain

    with patch.object(_ExportPassBase, "_fx", interpreted):
        yield


class _Kept:
    """The results of calls. Calls with the same argument objects are equal, so arguments are kept alive."""

    def __init__(self) -> None:
        self._results: dict[Any, tuple[Any, Any]] = {}
        self._used: WeakKeyDictionary[Any, dict[int, Any]] = WeakKeyDictionary()

    def call(self, interpreter: Any, target: Any, args: Any, kwargs: Any, graph: Any, before: Any) -> Any:
        """Return the result of a call that becomes a node of a graph. `before` is the node's result in the last
        pass."""
        operator = getattr(target, "_op", target)  # of executorch's edge dialect
        if _varies(operator):
            return interpreter.call_function(target, args, kwargs)
        leaves, spec = pytree.tree_flatten((args, kwargs))
        key = (operator, spec, tuple(map(_identity, leaves)))
        used = self._used.setdefault(graph, {})  # one object is the result of equal calls only
        result = self._results.get(key, (None,))[0]
        if result is None or used.get(id(result), key) != key:
            with _unguarded(leaves):
                result = interpreter.call_function(target, args, kwargs)
            if _alike(result, before) and used.get(id(before), key) == key:
                result = before
            self._results[key] = result, leaves
        used[id(result)] = key
        return result


class _Interpreter:
    """Calls functions unless their results are kept, and otherwise works like the plain interpreter."""

    def __init__(self, plain: Any, kept: _Kept, graph: Any, before: Any) -> None:
        self._plain = plain
        self._kept = kept
        self._graph = graph
        self._before = before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        return self._kept.call(self._plain, target, args, kwargs, self._graph, self._before)


@contextmanager
def _unguarded(arguments: list[Any]) -> Iterator[None]:
    """Leave the ranges of dynamic sizes as they are while the context lasts. torch would narrow the range of a batch to
    less than 16, because oneDNN's convolutions of larger batches differ."""
    environments = (each.fake_mode.shape_env for each in arguments if isinstance(each, FakeTensor))
    environment = None if any(map(_reads_numbers, arguments)) else next(filter(None, environments), None)
    with environment.suppress_guards() if environment is not None else nullcontext():
        yield


def _reads_numbers(argument: Any) -> bool:
    """Return whether an argument is a delegate's program that reads numbers from tensors, whose bounds it states."""
    program = getattr(argument, "original_module", None)
    nodes = program.graph.nodes if program is not None else ()
    return any(aten_operator(node.target) is torch.ops.aten._local_scalar_dense.default for node in nodes)


def _varies(operator: Any) -> bool:
    """Return whether an operator changes an argument, or draws random numbers."""
    if not isinstance(operator, torch._ops.OpOverload):
        return False
    return operator._schema.is_mutable or torch.Tag.nondeterministic_seeded in operator.tags


def _identity(value: Any) -> Any:
    """Return a constant's type and text, or the identity of any other object."""
    if value is None or isinstance(value, (bool, int, float, str, torch.dtype, torch.device, torch.layout)):
        return type(value), repr(value)
    return id(value)


def _alike(one: Any, other: Any) -> bool:
    """Return whether two results are tensors of the same type and constant shape, without known values."""
    return _description(one) is not None and _description(one) == _description(other)


def _description(value: Any) -> Any:
    if not isinstance(value, FakeTensor) or value.constant is not None or value.layout != torch.strided:
        return None
    numbers = (*value.shape, *value.stride(), value.storage_offset())
    if not all(type(each) is int for each in numbers):
        return None
    return numbers, value.dtype, value.device, value.requires_grad, value.is_conj(), value.is_neg(), value.fake_mode
