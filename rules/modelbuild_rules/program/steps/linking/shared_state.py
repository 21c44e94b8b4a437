"""Give the buffers that methods change places in one arena, the same place to a buffer that several methods share.

Each method was planned alone: its changed buffers are in arena 2, under their qualified names
(program/steps/lowering/memory_plan.py). Views of a buffer have no name, and a place inside the buffer's. A method
without such buffers may have other memory there, of a GPU.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Any

from modelbuild.step import StepError

ARENA = 2


def share(tables: Mapping[str, Any], modules: Mapping[str, int]) -> bool:
    """Place the state of programs of one method each. `modules` is the number of each method's module. Return whether
    there is any. Raises StepError for a buffer that two methods have in different types or shapes."""
    places: dict[tuple[int, str], tuple[int, Any, str]] = {}
    end = 0
    sharing = []
    for method, table in tables.items():
        (plan,) = table.executionPlan
        named = {_offset(each): each for each in _tensors(plan) if _name(each)}
        starts = sorted(named)
        if not starts:
            continue
        sharing.append(plan)
        new: dict[int, int] = {}
        for start, after in zip(starts, [*starts[1:], int(plan.nonConstBufferSizes[ARENA])], strict=True):
            tensor = named[start]
            key = (modules[method], _name(tensor))
            layout = (tensor.scalarType, list(tensor.sizes), list(tensor.dimOrder))
            if key not in places:
                places[key] = (end, layout, method)
                end += after - start
            new[start], known, other = places[key]
            if known != layout:
                raise StepError(
                    f"methods '{other}' and '{method}' have the buffer '{key[1]}' in different types, shapes or orders"
                    " of dimensions; expected equal ones"
                )
        for tensor in _tensors(plan):
            old = _offset(tensor)
            start = starts[bisect_right(starts, old) - 1]
            _place(tensor, new[start] + old - start)
    for plan in sharing:
        plan.nonConstBufferSizes = [*plan.nonConstBufferSizes[:ARENA], end, *plan.nonConstBufferSizes[ARENA + 1 :]]
    return end > 0


def _tensors(plan: Any) -> Iterator[Any]:
    """Yield the tensors in the arena."""
    for value in plan.values:
        tensor = value.val
        info = tensor.allocationInfo if type(tensor).__name__ == "TensorT" else None
        if info is not None and info.memoryId == ARENA:
            yield tensor


def _name(tensor: Any) -> str:
    extra = tensor.extraTensorInfo
    name = None if extra is None else extra.fullyQualifiedName
    return "" if name is None else name.decode() if isinstance(name, bytes) else str(name)


def _offset(tensor: Any) -> int:
    info = tensor.allocationInfo
    return int(info.memoryOffsetHigh) << 32 | int(info.memoryOffsetLow)


def _place(tensor: Any, offset: int) -> None:
    tensor.allocationInfo.memoryOffsetHigh, tensor.allocationInfo.memoryOffsetLow = offset >> 32, offset & 0xFFFFFFFF
