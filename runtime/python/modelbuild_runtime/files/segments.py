"""Read the common parts of a .pte and a .ptd: segments after the flatbuffer, and sizes of tensors."""

from __future__ import annotations

import math
from collections.abc import Iterable

from modelbuild_runtime.files.flatbuffer import Field, Malformed, Table
from modelbuild_runtime.files.schema import DataSegment

_COUNTABLE = 2**63
_MOST_DIMENSIONS = 16


def segment_extents(segments: Iterable[Table], base: int, size: int) -> tuple[tuple[int, int], ...]:
    """Return the offset and size of each segment in a file of `size` bytes. Raises Malformed for a segment outside the
    file."""
    found = []
    for number, segment in enumerate(segments):
        start, length = base + segment.integer(DataSegment.offset), segment.integer(DataSegment.size)
        if start + length > size:
            raise Malformed(f"segment {number} ends after the file's {size} bytes")
        found.append((start, length))
    return tuple(found)


def tensor_sizes(table: Table, sizes: Field, dim_order: Field) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return a tensor's sizes and order of dimensions, from these fields. Raises Malformed if they are invalid."""
    found, order = table.integers(sizes), table.integers(dim_order)
    if len(found) > _MOST_DIMENSIONS:
        raise Malformed(f"a tensor has {len(found)} dimensions")
    negative = [size for size in found if size < 0]
    if negative:
        raise Malformed(f"a tensor has a dimension of {negative[0]}")
    if math.prod(found) >= _COUNTABLE:
        raise Malformed("a tensor has more bytes than can be counted")
    if sorted(order) != list(range(len(found))):
        raise Malformed("a tensor's order of dimensions is not a permutation")
    return found, order
