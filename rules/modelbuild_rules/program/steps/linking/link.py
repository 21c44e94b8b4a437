"""Link programs whose delegates are placeholders with the compiled partitions, file to file.

The result has the bytes that executorch 1.5.1 writes when it compiles the partitions itself and gets the manifest
(manifest.py) as an additional entry of named data. The order of segments, the merging of equal blobs, alignments and
headers follow executorch/exir/_serialize/_program.py (.pte) and executorch/extension/flat_tensor/serialize/serialize.py
(.ptd). For several programs that become methods of one program, executorch would write the same segments in another
order.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from modelbuild.step import StepError
from modelbuild_rules.backend_api.steps.compiled import ABOUT, PROCESSED
from modelbuild_rules.backend_api.steps.named_data import Named, read_named
from modelbuild_rules.program.steps.linking import shared_constants, shared_state
from modelbuild_rules.program.steps.linking.data_file import (
    Entry,
    manifest_entry,
    segment_of,
    u32,
    u64,
    with_header,
    write_data,
)
from modelbuild_rules.program.steps.linking.flatbuffer import Record, read_program, write_program
from modelbuild_rules.program.steps.linking.manifest import KEY, seal, unsealed
from modelbuild_rules.program.steps.linking.segments import ALIGNMENT, Blob, Contents, Segments, aligned
from modelbuild_rules.program.steps.partitions.placeholder import MAX_SIZE, partition_of
from modelbuild_runtime.files.schema import BackendDelegateInlineData, DataLocation, DataSegment, NamedData

if TYPE_CHECKING:
    from modelbuild_rules.backend_api.documents import PartitionFacts
    from modelbuild_rules.program.documents import Manifest

_PTE_HEADER = 32  # bytes; a multiple of the largest force_align of program.fbs


@dataclass(frozen=True, slots=True)
class Part:
    """A compiled partition: the delegate's blob, its named data, and facts for delegation.json."""

    processed: Path
    named: tuple[Named, ...]
    about: PartitionFacts | None = None

    @classmethod
    def read(cls, folder: Path) -> Part:
        """Return the partition that a compile step wrote."""
        about = folder / ABOUT
        facts = json.loads(about.read_text()) if about.exists() else None
        return cls(folder / PROCESSED, read_named(folder), facts)


@dataclass(frozen=True, slots=True)
class Residual:
    """A lowered method.

    path       a .pte whose delegates are placeholders of the partitions in `parts`
    constants  its constants outside the .pte
    parts      its compiled partitions by id
    """

    path: Path
    constants: Sequence[Named]
    parts: Mapping[str, Part]


def link(
    residuals: Mapping[str, Residual],
    pte: Path,
    ptd: Path | None,
    manifest: Manifest | None = None,
    modules: Mapping[str, int] | None = None,
) -> None:
    """Write `pte`, a program with a method of each residual, and, unless it is None, `ptd` with all data that may be
    outside the program. Equal constants, and equal data of partitions, are written once. Both files end with a
    manifest; `manifest` is the .pte's, by default without facts. Methods with the same number in `modules` share their
    state.

    Raises StepError if two partitions have different data under one key, or if there is no data for `ptd`: ExecuTorch
    cannot load an empty file.
    """
    with TemporaryDirectory() as work:
        contents = Contents()
        segments = Segments(contents)
        read = {name: read_file(each.path) for name, each in residuals.items()}
        for name, (table, _) in read.items():
            (plan,) = table.execution_plan
            plan.name = name
        if modules is not None and shared_state.share({name: table for name, (table, _) in read.items()}, modules):
            manifest = {**(manifest or {"version": 1}), "shared_state": True}
        outside = shared_constants.external(
            {name: (read[name][0], each.constants) for name, each in residuals.items()}, contents
        )
        made = shared_constants.merge(list(read.values()), contents, segments, Path(work))
        inline: list[Record] = []
        for name, (table, blobs) in read.items():
            _put_delegates(table, blobs, residuals[name].parts, segments, inline)
        made.backend_delegate_data = inline
        named = [*outside, *(each for name in read for each in _named(read[name][0], residuals[name].parts))]
        made.execution_plan = [plan for table, _ in read.values() for plan in table.execution_plan]
        _write(made, segments, named, contents, (pte, ptd), manifest, Path(work))


def _write(
    table: Any,
    segments: Segments,
    named: Iterable[Named],
    contents: Contents,
    files: tuple[Path, Path | None],
    manifest: Manifest | None,
    work: Path,
) -> None:
    pte, ptd = files
    inside, outside = _split(_merge(named, contents), ptd is not None)
    if ptd is not None and not outside:
        raise StepError("external_weights is set, but the program has no weights")
    end = work / "pte"
    end.write_bytes(unsealed(manifest or {"version": 1}))
    _write_pte(table, segments, [*inside, manifest_entry(KEY, end)], pte)
    if ptd is not None:
        write_data(outside, contents, ptd, work)


def read_file(path: Path) -> tuple[Any, list[Blob]]:
    """Return a .pte's program and its segments. A program without segments has no extended header."""
    with path.open("rb") as file:
        head = file.read(8 + _PTE_HEADER)
        extended = head[8:12] == b"eh00"
        size = int.from_bytes(head[16:24], "little") if extended else path.stat().st_size
        base = int.from_bytes(head[24:32], "little") if extended else 0
        file.seek(0)
        table = read_program(file.read(size))
    return table, [Blob(path, base + segment.offset, segment.size) for segment in table.segments or []]


def _put_delegates(
    table: Any, blobs: list[Blob], parts: Mapping[str, Part], segments: Segments, inline: list[Record]
) -> None:
    """Add the delegates' blobs as segments, and the empty blobs to `inline`."""
    for plan in table.execution_plan:
        for delegate in plan.delegates or []:
            blob = blobs[delegate.processed.index]
            partition = partition_of(blob.read()) if blob.size <= MAX_SIZE else None
            if partition is None:
                raise ValueError(f"delegate {delegate.id!r} is not a placeholder")
            blob = Blob.file(parts[partition].processed)
            delegate.processed.location = DataLocation.SEGMENT if blob.size else DataLocation.INLINE
            delegate.processed.index = segments.add("delegate", blob) if blob.size else len(inline)
            inline += [] if blob.size else [Record(BackendDelegateInlineData, data=b"")]


def _named(table: Any, parts: Mapping[str, Part]) -> Iterator[Named]:
    for entry in table.named_data or []:
        partition = partition_of(entry.key.encode())
        if partition is None:
            raise ValueError(f"named data {entry.key!r} is not a placeholder")
        yield from parts[partition].named


def _merge(entries: Iterable[Named], contents: Contents) -> list[Entry]:
    """Return each key's entry once, with its blob. Raises StepError if a key has different data."""
    merged: dict[str, Entry] = {}
    for entry in entries:
        blob = contents.first(Blob.file(entry.path))
        known = merged.setdefault(entry.key, (entry, blob))
        if known[1] != blob:
            raise StepError(
                f"two partitions have different data '{entry.key}' ({known[1].size} and {blob.size} bytes); expected"
                " equal data under equal keys"
            )
    return list(merged.values())


def _split(entries: list[Entry], outside: bool) -> tuple[list[Entry], list[Entry]]:
    return (
        [pair for pair in entries if not (outside and pair[0].external)],
        [pair for pair in entries if outside and pair[0].external],
    )


def _write_pte(table: Any, segments: Segments, entries: Iterable[Entry], path: Path) -> None:
    table.named_data = [
        Record(NamedData, key=entry.key, segment_index=segment_of(segments, entry, blob)) for entry, blob in entries
    ]
    table.segments = [Record(DataSegment, offset=offset, size=size) for offset, size in segments.extents()]
    flat = write_program(table)
    size = _PTE_HEADER + len(flat)
    base = aligned(size, ALIGNMENT)
    header = u32(_PTE_HEADER) + u64(size) + u64(base) + u64(segments.size())
    segments.write(path, with_header(flat, b"eh00" + header, _PTE_HEADER), base)
    seal(path)
