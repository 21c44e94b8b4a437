"""Tensors without values that remember the weight they come from, while a program is lowered.

A tensor keeps its storage in views, and copies of a program share such tensors. Any other tensor, such as a result of
arithmetic on weights, has no source, and code that reads a value of a weight fails.

Private names used, checked on torch 2.14.0: torch._subclasses.fake_tensor.FakeTensor, UntypedStorage._cdata,
Tensor._version. `FakeTensor.__deepcopy__` is patched while sources are known: a copy is the tensor itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from unittest.mock import patch

import torch
from torch._subclasses.fake_tensor import FakeTensor


class ValuesNeeded(Exception):
    """A program cannot be lowered without the values of its weights."""


class Sources:
    """The names of weights, by the storage of the fake tensors that replace them."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[torch.Tensor, str]] = {}

    def add(self, tensor: torch.Tensor, name: str) -> None:
        self._known[tensor.untyped_storage()._cdata] = tensor, name

    def of(self, tensor: torch.Tensor) -> str:
        """Return the name of the weight that has the bytes of a tensor. Raises ValuesNeeded if there is none."""
        first, name = self._known.get(tensor.untyped_storage()._cdata, (None, ""))
        if first is None or first._version or tensor._version or first.dtype != tensor.dtype:
            raise ValuesNeeded("the lowering computes with a weight")
        same = (first.shape, first.stride()) == (tensor.shape, tensor.stride())
        whole = first.is_contiguous() and tensor.is_contiguous() and first.numel() == tensor.numel()
        if tensor.storage_offset() or not (same or whole):
            raise ValuesNeeded("the lowering keeps a part of a weight, or in another order")
        return name


_SOURCES: ContextVar[Sources | None] = ContextVar("sources", default=None)


@contextmanager
def known_sources(sources: Sources) -> Iterator[None]:
    """Write a tensor without values as the name of its weight while the context lasts."""
    token = _SOURCES.set(sources)
    try:
        with patch.object(FakeTensor, "__deepcopy__", lambda self, _: self):
            yield
    finally:
        _SOURCES.reset(token)


def source(tensor: torch.Tensor) -> str | None:
    """Return the name of the weight that a tensor without values comes from; None for a tensor with values."""
    sources = _SOURCES.get()
    return sources.of(tensor) if sources is not None and isinstance(tensor, FakeTensor) else None
