"""State that a module keeps in plain attributes: numbers, lists, tensors that are not buffers. Programs lose it."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from modelbuild_rules.model.steps.eager.results import plain

_OF_TORCH = frozenset(vars(nn.Module()))
"""Attributes of every module, with its parameters, buffers and submodules among them."""

_HOOKS = tuple(name for name in _OF_TORCH if "_hooks" in name)

_CONTAINERS = (dict, list, set, OrderedDict, defaultdict, deque)
"""The types that are searched; a subclass may refuse to be changed."""
_SEQUENCES = (list, deque)


class PlainState:
    """The current values in a module's plain attributes, and in containers and objects that these contain; and its
    hooks, which a module may register in its first call, and note in an attribute."""

    def __init__(self, module: nn.Module) -> None:
        self._kept: list[tuple[str, Any, Any]] = []
        self._seen: set[int] = set()
        hooks = (getattr(each, name, None) for each in module.modules() for name in _HOOKS)
        self._hooks = [(own, own.copy()) for own in hooks if own is not None]
        for path, each in module.named_modules():
            if not isinstance(each, torch.jit.ScriptModule):
                self._keep(path, vars(each), _OF_TORCH)

    def _keep(self, path: str, container: Any, skipped: frozenset[str] = frozenset()) -> None:
        if id(container) in self._seen:
            return
        self._seen.add(id(container))
        self._kept.append((path, container, container.copy()))
        for name, value in _items(container):
            if name in skipped:
                continue
            below = f"{path}.{name}".removeprefix(".")
            if type(value) in _CONTAINERS:
                self._keep(below, value)
            elif _is_plain_object(value):
                self._keep(below, vars(value))

    def changed(self) -> list[str]:
        """Return the attributes that now have another value, as "layer.last"."""
        return list(dict.fromkeys(path for kept in self._kept for path in _differences(*kept)))

    def restore(self) -> None:
        """Restore all attributes and hooks. Tensors that were changed in place stay changed."""
        for own, kept in self._hooks:
            own.clear()
            own.update(kept)
        for path, container, values in self._kept:
            if any(_differences(path, container, values)):
                container.clear()
                (container.extend if isinstance(container, _SEQUENCES) else container.update)(values)


def reads_state(module: nn.Module, state: PlainState, call: Callable[[Any], Any], first: Any, second: Any) -> bool:
    """Return whether a call of a module with the second inputs, after a call with the first inputs, returns another
    result because of its plain attributes. Leaves the attributes and the buffers unchanged."""
    buffers = [(each._buffers, dict(each._buffers)) for each in module.modules()]
    values = {name: buffer.clone() for name, buffer in module.named_buffers()}

    def called(inputs: Any) -> list[Any]:
        try:
            with torch.no_grad():
                return pytree.tree_leaves(plain(call(inputs)))
        finally:
            for own, kept in buffers:
                own.update(kept)
            for name, buffer in module.named_buffers():
                buffer.copy_(values[name])

    try:
        alone = called(second)
        state.restore()
        called(first)
        return not _equal(alone, called(second))
    except Exception:  # exceptions of the model's own code, which may refuse these inputs
        return False
    finally:
        state.restore()


def _equal(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return len(one) == len(other) and all(map(_equal_values, one, other))


def _equal_values(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.shape == other.shape and one.dtype == other.dtype and torch.allclose(one, other, equal_nan=True)
    return bool(one == other)


def _items(container: Any) -> Iterator[tuple[Any, Any]]:
    yield from list(container.items() if isinstance(container, dict) else enumerate(container))


def _is_plain_object(value: Any) -> bool:
    """Return whether a value is an object of a class of the model's, whose attributes may be state."""
    known = isinstance(value, (nn.Module, torch.Tensor, type, ModuleType)) or callable(value)
    return hasattr(value, "__dict__") and not known


def _differences(path: str, container: Any, values: Any) -> Iterator[str]:
    if isinstance(container, (set, *_SEQUENCES)) and len(container) != len(values):
        yield path
        return
    if isinstance(container, set):
        yield from [path] * (container != values)
        return
    before, now = dict(_items(values)), dict(_items(container))
    for name in {**before, **now}:
        if name not in before or name not in now or not _same(before[name], now[name]):
            yield f"{path}.{name}".removeprefix(".")


def _same(one: Any, other: Any) -> bool:
    simple = (bool, int, float, complex, str, bytes, type(None))
    return one is other or (type(one) is type(other) and isinstance(one, simple) and one == other)
