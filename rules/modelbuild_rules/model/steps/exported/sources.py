"""Tensors without values that remember how they derive from weights, while a program is lowered or compiled.

Each call that reads such a tensor is recorded, and recipes.py repeats it with values. Code that reads a value of a
weight fails. Code that reads the bytes of a tensor gets a *mark* of equal size, whose place the bytes take later.

Private names used, checked on torch 2.14.0: torch._subclasses.fake_tensor.FakeTensor, UntypedStorage._cdata,
Tensor._version, OpOverload._schema, torch.utils._python_dispatch.TorchDispatchMode. Patched while sources are known:
`FakeTensor.__deepcopy__` (a copy is the tensor itself) and UntypedStorage.data_ptr.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import operator
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from unittest.mock import patch

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from modelbuild_rules.model.steps.exported.values import write_operator, write_value

Json = Any
_MARKED = 32
"""The number of bytes of a mark before its zeros."""


class ValuesNeeded(Exception):
    """A program cannot be lowered or compiled without the values of its weights."""


class Sources(TorchDispatchMode):
    """The names of weights, and of results of calls on them, by the storage of the fake tensors that replace them.
    While this mode is active, it records calls on these tensors."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self._graph = torch.fx.Graph()
        self._nodes: dict[str, torch.fx.Node] = {}
        self._names: dict[torch.fx.Node, str] = {}
        self._known: dict[int, list[tuple[torch.Tensor, str]]] = {}
        self._calls: dict[str, Json] = {}
        self._equal: dict[str, str] = {}
        self._marks: dict[tuple[int, bytes], str] = {}
        self._unmarked: set[tuple[int, bytes]] = set()
        self._last: Any = None

    def add(self, tensor: torch.Tensor, name: str) -> None:
        """Add a weight."""
        if name not in self._nodes:
            self._name(self._graph.placeholder(name), name)
        self._known.setdefault(tensor.untyped_storage()._cdata, []).append((tensor, name))

    def of(self, tensor: torch.Tensor, exactly: bool = False) -> str:
        """Return the name of the weight or result that has the bytes of a tensor and, with `exactly`, its shape. Raises
        ValuesNeeded if there is none."""
        for known, name in self._known.get(tensor.untyped_storage()._cdata, ()):
            if known._version or tensor._version:
                break
            whole = known.is_contiguous() and tensor.is_contiguous() and known.numel() == tensor.numel()
            if _layout(known) == _layout(tensor) or (whole and not exactly and known.dtype == tensor.dtype):
                return name
        raise ValuesNeeded("a weight is changed, or computed in a way that is not recorded")

    def calls(self, names: Iterable[str]) -> dict[str, Json]:
        """Return the calls that make the results among these names, in order, as recipes.py reads them."""
        needed, left = set[str](), [*names]
        while left:
            name = left.pop()
            if name not in needed:
                needed.add(name)
                left += [self._names[node] for node in self._nodes[name].all_input_nodes]
        return {name: call for name, call in self._calls.items() if name in needed}

    def marked(self, data: bytes) -> str | None:
        """Return the name of the tensor whose mark these bytes are; None if they are values. Raises ValuesNeeded if
        they may be both."""
        key = len(data), data[:_MARKED]
        if key in self._unmarked and key in self._marks:
            raise ValuesNeeded("a small weight is not distinct from a constant")
        return self._marks.get(key)

    def address(self, storage: torch.UntypedStorage, actual: Any) -> int:
        """Return the address of a storage's bytes, or of its mark, which is valid until the next call."""
        size = storage.nbytes()
        known = self._known.get(storage._cdata)
        if known is None:
            if storage.device.type == "meta":
                raise ValuesNeeded("the bytes of a tensor without values are read")
            address: int = actual(storage)
            self._unmarked.add((size, ctypes.string_at(address, min(size, _MARKED)) if size else b""))
            return address
        name = self.of(known[0][0])
        digest = hashlib.sha256(name.encode()).digest()[:size]
        if self._marks.setdefault((size, digest), name) != name:
            raise ValuesNeeded("small weights are not distinct")
        self._last = ctypes.create_string_buffer(digest, size + 1)
        return ctypes.addressof(self._last)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        given = [each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, FakeTensor)]
        if any(each.untyped_storage()._cdata in self._known for each in given):
            self._record(func, args, kwargs or {}, made)
        return made

    def _record(self, func: Any, args: Any, kwargs: Any, made: Any) -> None:
        """Record a call on weights, and perhaps on tensors that do not derive from weights; the source of such a result
        remains unknown. Raises ValuesNeeded for a call whose result is a value."""
        if getattr(func, "namespace", "") == "prim":  # reads a property of a tensor, such as its device
            return
        results = made if isinstance(made, (list, tuple)) else [made]
        if not all(isinstance(each, FakeTensor) for each in results):
            raise ValuesNeeded(f"{func} reads a weight")
        try:
            args, kwargs = pytree.tree_map_only(
                torch.Tensor, lambda each: self._nodes[self.of(each, True)], (args, kwargs)
            )
            name = self._call(func, args, kwargs)
        except (ValueError, ValuesNeeded):
            return
        if made is results:
            for place, each in enumerate(results):
                self.add(each, self._call(operator.getitem, (self._nodes[name], place), {}))
        else:
            self.add(made, name)

    def _call(self, func: Any, args: Any, kwargs: Any) -> str:
        """Return the name of a call's result. Equal calls have one name. Raises ValueError for an operator or a value
        that programs in files lack."""
        if func._schema.is_mutable if isinstance(func, torch._ops.OpOverload) else func is not operator.getitem:
            raise ValueError(f"{func} changes its arguments")
        values = [write_value(each, lambda node: {"node": self._names[node]}) for each in (list(args), kwargs)]
        call = [write_operator(func), *values]
        name = self._equal.setdefault(json.dumps(call), f"r{len(self._calls)}")
        if name not in self._calls:
            self._calls[name] = call
            self._name(self._graph.call_function(func, args, kwargs), name)
        return name

    def _name(self, node: torch.fx.Node, name: str) -> None:
        self._nodes[name] = node
        self._names[node] = name


def _layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset()


_SOURCES: ContextVar[Sources | None] = ContextVar("sources", default=None)


@contextmanager
def known_sources(sources: Sources) -> Iterator[None]:
    """Record calls on tensors without values, write such a tensor as its name, and read marks as its bytes, while the
    context lasts."""
    token, actual = _SOURCES.set(sources), torch.UntypedStorage.data_ptr
    try:
        with (
            patch.object(FakeTensor, "__deepcopy__", lambda self, _: self),
            patch.object(torch.UntypedStorage, "data_ptr", lambda self: sources.address(self, actual)),
            sources,
        ):
            yield
    finally:
        _SOURCES.reset(token)


def source(tensor: torch.Tensor) -> str | None:
    """Return the name of a tensor without values; None for a tensor with values."""
    sources = _SOURCES.get()
    return sources.of(tensor) if sources is not None and isinstance(tensor, FakeTensor) else None
