"""Lay out blobs in a file: merge equal blobs, compute offsets, and copy blobs of any size without reading them
whole."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

ALIGNMENT = 128
"""Executorch's default alignment of a segment, in bytes."""

_CHUNK = 8 << 20


@dataclass(frozen=True, slots=True)
class Blob:
    """`size` bytes of a file, from `offset`."""

    path: Path
    offset: int
    size: int

    @classmethod
    def file(cls, path: Path) -> Blob:
        """Return the blob of a whole file."""
        return cls(path, 0, path.stat().st_size)

    def read(self) -> bytes:
        """Return the bytes of a small blob."""
        with self.path.open("rb") as file:
            file.seek(self.offset)
            return file.read(self.size)

    def save(self, path: Path) -> Path:
        """Write the bytes to a file, and return its path."""
        with path.open("wb", buffering=0) as out:
            _copy(self, out, 0)
        return path


class Contents:
    """Finds equal blobs. Reads only blobs that have the same size as another blob."""

    def __init__(self) -> None:
        self._by_size: dict[int, list[Blob]] = {}
        self._digests: dict[Blob, bytes] = {}

    def first(self, blob: Blob) -> Blob:
        """Return the first blob, of all passed so far, with the same bytes."""
        others = self._by_size.setdefault(blob.size, [])
        if blob in others:
            return blob
        for other in others:
            if self._digest(other) == self._digest(blob):
                return other
        others.append(blob)
        return blob

    def _digest(self, blob: Blob) -> bytes:
        if blob not in self._digests:
            self._digests[blob] = _sha256(blob)
        return self._digests[blob]


def _sha256(blob: Blob) -> bytes:
    digest = hashlib.sha256()
    left = blob.size
    with blob.path.open("rb") as file:
        file.seek(blob.offset)
        while left:
            chunk = file.read(min(left, _CHUNK))
            if not chunk:
                raise EOFError(f"{blob.path} ends before byte {blob.offset + blob.size}")
            digest.update(chunk)
            left -= len(chunk)
    return digest.digest()


class Segments:
    """Segments of a file: each distinct blob once per kind, at a multiple of its alignment."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._index: dict[tuple[str, Blob], int] = {}
        self._alignments: list[int] = []

    def add(self, kind: str, blob: Blob, alignment: int = 1) -> int:
        """Return the index of the segment with the blob's bytes. Raise its alignment to a common multiple of all
        alignments."""
        index = self._index.setdefault((kind, self._contents.first(blob)), len(self._index))
        if index == len(self._alignments):
            self._alignments.append(ALIGNMENT)
        self._alignments[index] = math.lcm(self._alignments[index], alignment)
        return index

    def extents(self) -> list[tuple[int, int]]:
        """Return (offset, size) of each segment, relative to the start of the first segment."""
        extents: list[tuple[int, int]] = []
        end = 0
        for (_, blob), alignment in zip(self._index, self._alignments, strict=True):
            offset = aligned(end, alignment)
            extents.append((offset, blob.size))
            end = offset + blob.size
        return extents

    def size(self) -> int:
        """Return the bytes of all segments with the padding between them."""
        extents = self.extents()
        return extents[-1][0] + extents[-1][1] if extents else 0

    def write(self, path: Path, head: bytes, base: int) -> None:
        """Write a file: `head`, zeros up to `base`, then the segments."""
        if base < len(head):
            raise ValueError(f"segments begin at byte {base}, inside the {len(head)} bytes before them")
        with path.open("wb", buffering=0) as out:
            out.write(head)
            out.truncate(base + self.size())
            for (_, blob), (offset, _) in zip(self._index, self.extents(), strict=True):
                _copy(blob, out, base + offset)


def write_at(path: Path, places: Iterable[tuple[Blob, int]], size: int = 0) -> None:
    """Write a file of blobs at offsets, with zeros between them, of at least `size` bytes."""
    with path.open("wb", buffering=0) as out:
        out.truncate(size)
        for blob, offset in places:
            _copy(blob, out, offset)


def aligned(offset: int, alignment: int) -> int:
    """Return the smallest multiple of `alignment` that is at least `offset`."""
    return -(-offset // alignment) * alignment


def _copy(blob: Blob, out: BinaryIO, at: int) -> None:
    """Copy a blob to an offset in a file, inside the kernel if possible."""
    done = 0
    with blob.path.open("rb", buffering=0) as source:
        while done < blob.size:
            copied = _copy_some(source.fileno(), blob.offset + done, out.fileno(), at + done, blob.size - done)
            if not copied:
                raise EOFError(f"{blob.path} ends before byte {blob.offset + blob.size}")
            done += copied


def _copy_some(source: int, offset: int, out: int, at: int, count: int) -> int:
    try:
        return os.copy_file_range(source, out, min(count, 1 << 30), offset, at)
    except OSError:  # across file systems, or without support for it
        return os.pwrite(out, os.pread(source, min(count, _CHUNK), offset), at)
