"""Read and write a .ptd: named data outside a program, and its manifest. Torch-free.

The order of segments, alignments and headers follow executorch/extension/flat_tensor/serialize/serialize.py.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from modelbuild_rules.backend_api.steps.named_data import Named
from modelbuild_rules.program.steps.linking.flatbuffer import Record, write_flat_tensor
from modelbuild_rules.program.steps.linking.manifest import KEY, key_beside, seal, unsealed
from modelbuild_rules.program.steps.linking.segments import ALIGNMENT, Blob, Contents, Segments, aligned
from modelbuild_runtime.files.flatbuffer import Buffer, Table
from modelbuild_runtime.files.schema import PtdDataSegment, PtdFlatTensor, PtdNamedData, PtdTensorLayout
from modelbuild_runtime.files.segments import segment_extents

if TYPE_CHECKING:
    from modelbuild_rules.backend_api.documents import TensorLayout

_HEADER = 48  # 40 bytes, padded to the flatbuffer's alignment

Entry: TypeAlias = tuple[Named, Blob]
"""An entry of named data, with the first blob that has the same bytes."""


def read_data(path: Path) -> Iterator[Entry]:
    """Yield the entries of a .ptd of this package, without its manifest."""
    with path.open("rb") as file:
        head = file.read(_HEADER)
        begin, size, base = struct.unpack_from("<QQQ", head, 16)
        file.seek(0)
        root = Table.root(Buffer(memoryview(file.read(begin + size))))
    extents = segment_extents(root.tables(PtdFlatTensor.segments), base, path.stat().st_size)
    for table in root.tables(PtdFlatTensor.named_data):
        key, (offset, length) = table.string(PtdNamedData.key), extents[table.integer(PtdNamedData.segment_index)]
        if not key.startswith(KEY):
            layout = _layout(table.table(PtdNamedData.tensor_layout))
            yield Named(key, path, external=True, layout=layout), Blob(path, offset, length)


def _layout(table: Table | None) -> TensorLayout | None:
    if table is None:
        return None
    return {
        "scalar_type": table.integer(PtdTensorLayout.scalar_type),
        "sizes": list(table.integers(PtdTensorLayout.sizes)),
        "dim_order": list(table.integers(PtdTensorLayout.dim_order)),
    }


def write_data(entries: Sequence[Entry], contents: Contents, path: Path, work: Path) -> None:
    """Write a .ptd, with its manifest at the end. `work` is a folder for a temporary file."""
    end = work / "ptd"
    end.write_bytes(unsealed({"version": 1}))
    key = key_beside(entry.key for entry, _ in entries)
    segments = Segments(contents)
    named_data = [
        Record(
            PtdNamedData,
            key=entry.key,
            segment_index=segment_of(segments, entry, blob),
            tensor_layout=entry.layout and Record(PtdTensorLayout, **entry.layout),
        )
        for entry, blob in [*entries, manifest_entry(key, end)]
    ]
    extents = [Record(PtdDataSegment, offset=offset, size=size) for offset, size in segments.extents()]
    flat = write_flat_tensor(Record(PtdFlatTensor, segments=extents, named_data=named_data))
    base = aligned(_HEADER + len(flat), ALIGNMENT)
    header = u32(40) + u64(_HEADER) + u64(len(flat)) + u64(base) + u64(segments.size())
    segments.write(path, with_header(flat, b"FH01" + header, _HEADER), base)
    seal(path)


def manifest_entry(key: str, path: Path) -> Entry:
    """Return the entry of a manifest in a file."""
    return Named(key, path), Blob.file(path)


def segment_of(segments: Segments, entry: Named, blob: Blob) -> int:
    """Return the index of an entry's segment. A manifest has the last segment, which no other entry shares."""
    return segments.add(KEY if entry.key.startswith(KEY) else "named", blob, entry.alignment)


def with_header(flat: bytes, header: bytes, length: int) -> bytes:
    """Return the flatbuffer with a header after its root offset and identifier."""
    root = int.from_bytes(flat[:4], "little") + length
    return u32(root) + flat[4:8] + header.ljust(length, b"\0") + flat[8:]


def u32(value: int) -> bytes:
    """Return a number of 32 bits as bytes."""
    return value.to_bytes(4, "little")


def u64(value: int) -> bytes:
    """Return a number of 64 bits as bytes."""
    return value.to_bytes(8, "little")
