"""Merge the constants, and the initial state of buffers, of several programs that become methods of one program.

A tensor of a method has the index of its data in one list of offsets for the whole program: constants in a separate
segment, each at a multiple of 16 bytes, and initial states in another segment (executorch/schema/program.fbs).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from modelbuild_rules.backend_api.steps.named_data import Named
from modelbuild_rules.program.steps.linking.flatbuffer import Record
from modelbuild_rules.program.steps.linking.segments import Blob, Contents, Segments, aligned, write_at
from modelbuild_runtime.dtypes import NAMES, item_size
from modelbuild_runtime.files.schema import KernelTypes, SubsegmentOffsets, TensorDataLocation

_ALIGNMENT = 16  # executorch's default for constant tensors, in bytes


def merge(programs: Sequence[tuple[Any, list[Blob]]], contents: Contents, segments: Segments, work: Path) -> Any:
    """Return the first program's table with the constants and initial states of all programs, each a table and its
    segments, as the first of `segments`. The tables' tensors get their new indices."""
    made = programs[0][0]
    _merge_constants(programs, contents, segments, work / "constants")
    _merge_states(programs, segments, work / "states")
    return made


def _merge_constants(
    programs: Sequence[tuple[Any, list[Blob]]], contents: Contents, segments: Segments, path: Path
) -> None:
    """Write each distinct constant once. Index 0 stands for no data."""
    indices: dict[Blob, int] = {}
    offsets = [0]
    places: list[tuple[Blob, int]] = []
    for table, blobs in programs:
        new = {0: 0}
        for index, blob in enumerate(constants(table, blobs), 1):
            first = contents.first(blob)
            if first not in indices:
                indices[first] = len(offsets)
                offsets.append(aligned(_end(places), _ALIGNMENT))
                places.append((first, offsets[-1]))
            new[index] = indices[first]
        for tensor in _stored(table):
            tensor.data_buffer_idx = new[tensor.data_buffer_idx]
    # Executorch refuses an empty segment, and an offset after its end: a constant may have no elements.
    write_at(path, places, max(offsets[-1], 1 if places else 0))
    made = programs[0][0]
    segment = segments.add("constants", Blob.file(path))
    made.constant_segment = Record(SubsegmentOffsets, segment_index=segment, offsets=offsets)


def constants(table: Any, blobs: Sequence[Blob]) -> list[Blob]:
    """Return a program's constants, without the zeros between them."""
    segment = table.constant_segment
    if segment is None or segment.offsets is None or len(segment.offsets) < 2:
        return []
    whole = blobs[segment.segment_index]
    sizes: dict[int, int] = {}
    for tensor in _stored(table):
        size = math.prod(tensor.sizes or ()) * item_size(NAMES[tensor.scalar_type])
        sizes[tensor.data_buffer_idx] = max(sizes.get(tensor.data_buffer_idx, 0), size)
    starts = [int(offset) for offset in segment.offsets[1:]]
    spans = zip(starts, [*starts[1:], whole.size], strict=True)
    return [
        Blob(whole.path, whole.offset + start, min(sizes[index], end - start) if index in sizes else end - start)
        for index, (start, end) in enumerate(spans, 1)
    ]


def _merge_states(programs: Sequence[tuple[Any, list[Blob]]], segments: Segments, path: Path) -> None:
    """Write the initial states one after another."""
    offsets: list[int] = []
    places: list[tuple[Blob, int]] = []
    for table, blobs in programs:
        for each in table.mutable_data_segments or []:
            for tensor in _tensors(table):
                if tensor.allocation_info is not None and tensor.data_buffer_idx:
                    tensor.data_buffer_idx += len(offsets)
            offsets += [int(offset) + _end(places) for offset in each.offsets]
            places.append((blobs[each.segment_index], _end(places)))
    made = programs[0][0]
    if not places:
        return
    write_at(path, places)
    segment = segments.add("mutable 0", Blob.file(path))
    made.mutable_data_segments = [Record(SubsegmentOffsets, segment_index=segment, offsets=offsets)]


def external(programs: Mapping[str, tuple[Any, Sequence[Named]]], contents: Contents) -> list[Named]:
    """Return the constants outside the program of all methods, each a table and its constants. If an earlier method has
    other data under a key, the method's name is put before the key. The table's tensors get the new key, and the index
    of their data among the method's."""
    made: dict[str, tuple[Named, Blob]] = {}
    for method, (table, constants) in programs.items():
        renamed, blobs = {}, {}
        for each in constants:
            blob = blobs[each.key] = contents.first(Blob.file(each.path))
            known = made.setdefault(each.key, (each, blob))
            if known[1] != blob or known[0].layout != each.layout:
                renamed[each.key] = f"{method}/{each.key}"
                made[f"{method}/{each.key}"] = replace(each, key=f"{method}/{each.key}"), blob
        indices: dict[Blob, int] = {}
        for tensor in _tensors(table):
            if _is_external(tensor):
                key = tensor.extra_tensor_info.fully_qualified_name
                tensor.extra_tensor_info.fully_qualified_name = renamed.get(key, key)
                tensor.data_buffer_idx = indices.setdefault(blobs[key], len(indices))
    return [entry for entry, _ in made.values()]


def _stored(table: Any) -> Iterator[Any]:
    """Yield the tensors whose data is among the constants, or that have none."""
    return (each for each in _tensors(table) if each.allocation_info is None and not _is_external(each))


def _tensors(table: Any) -> Iterator[Any]:
    for plan in table.execution_plan:
        for value in plan.values:
            if value.val_type == KernelTypes.Tensor:
                yield value.val


def _is_external(tensor: Any) -> bool:
    return tensor.extra_tensor_info is not None and tensor.extra_tensor_info.location == TensorDataLocation.EXTERNAL


def _end(places: Sequence[tuple[Blob, int]]) -> int:
    return places[-1][1] + places[-1][0].size if places else 0
