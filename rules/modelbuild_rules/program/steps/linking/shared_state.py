"""Place the buffers that methods change in one arena. A buffer that several methods share has one place.

Each method was planned alone: its changed buffers are in arena 2, under their qualified names
(program/steps/lowering/memory_plan.py). Views of a buffer have no name, and a place inside the buffer's. In a method
without changed buffers, arena 2 may be other memory, of a GPU.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Any

from modelbuild.step import StepError
from modelbuild_runtime.files.schema import KernelTypes

ARENA = 2


def share(tables: Mapping[str, Any], modules: Mapping[str, int]) -> bool:
    """Place the state of programs of one method each. `modules` is the number of each method's module. Return whether
    there is any state. Raises StepError for a buffer that two methods have in different types or shapes."""
    places: dict[tuple[int, str], tuple[int, Any, str]] = {}
    end = 0
    sharing = []
    for method, table in tables.items():
        (plan,) = table.execution_plan
        named = {_offset(each): each for each in _tensors(plan) if _name(each)}
        starts = sorted(named)
        if not starts:
            continue
        sharing.append(plan)
        new: dict[int, int] = {}
        for start, after in zip(starts, [*starts[1:], int(plan.non_const_buffer_sizes[ARENA])], strict=True):
            tensor = named[start]
            key = (modules[method], _name(tensor))
            layout = (tensor.scalar_type, list(tensor.sizes), list(tensor.dim_order))
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
        plan.non_const_buffer_sizes[ARENA] = end
    return end > 0


def _tensors(plan: Any) -> Iterator[Any]:
    """Yield the tensors in the arena."""
    for value in plan.values:
        info = value.val.allocation_info if value.val_type == KernelTypes.Tensor else None
        if info is not None and info.memory_id == ARENA:
            yield value.val


def _name(tensor: Any) -> str:
    extra = tensor.extra_tensor_info
    return (extra and extra.fully_qualified_name) or ""


def _offset(tensor: Any) -> int:
    info = tensor.allocation_info
    return int(info.memory_offset_high) << 32 | int(info.memory_offset_low)


def _place(tensor: Any, offset: int) -> None:
    info = tensor.allocation_info
    info.memory_offset_high, info.memory_offset_low = offset >> 32, offset & 0xFFFFFFFF
