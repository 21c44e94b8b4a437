"""Sort the bindings of a TensorRT-RTX engine, so that equal networks become equal engines. Torch-free.

The builder lists an engine's inputs and results in one table and its results in another, in the order of its objects'
addresses in memory. Nothing else varies from build to build, and no record contains its position in the table, so the
builder may write any order. This module puts the records in a given order.

Layout, as seen in tensorrt_rtx 1.6.1.120: a value begins with a tag (0x80XX) and a version (1), both u16; a composite
value ends with the tag's complement. A record of the first table is <43><16>number<41>name...</41></43>, a record of
the second is name<2d>name...<25>flag</25></2d>. All numbers are little-endian.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Sequence
from typing import Any


def _opened(*tags: int) -> bytes:
    return b"".join(struct.pack("<HH", 0x8000 | tag, 1) for tag in tags)


def _closed(*tags: int) -> bytes:
    return b"".join(struct.pack("<H", 0x7FFF & ~tag) for tag in tags)


def _pattern(*parts: bytes) -> re.Pattern[bytes]:
    """Return a regular expression of literal bytes and, at odd positions, patterns."""
    return re.compile(b"".join(re.escape(part) if i % 2 == 0 else part for i, part in enumerate(parts)), re.DOTALL)


_NAME = (_opened(0x13), rb".{8}\x01\x80", _opened(0x0C), rb"(?P<length>.{8})[^\x80]*?")
"""Text, preceded by its length (u64), twice."""

_TABLES = (
    _pattern(
        _opened(0x43, 0x16, 0x07),
        rb".{4}",
        _opened(0x41) + _NAME[0],
        *_NAME[1:3],
        _NAME[3] + b".*?",
        _closed(0x41, 0x43),
    ),
    _pattern(*_NAME, _opened(0x2D), rb".*?", _closed(0x25, 0x2D)),
)


def order_bindings(plan: Any, names: Sequence[str]) -> None:
    """Put the records of bindings in the order of `names`, in place. `plan` is a writable buffer."""
    places = {name.encode(): place for place, name in enumerate(names)}
    if len(places) < 2:
        return
    view = memoryview(plan).cast("B")
    for table in _TABLES:
        for run in _adjacent(table.finditer(view)):
            named = [(_name(match), match) for match in run]
            bindings = [match for name, match in named if name in places]
            if len(bindings) < 2:
                continue
            ordered = iter(sorted(bindings, key=lambda match: places[_name(match)]))
            records = [bytes(next(ordered)[0] if name in places else match[0]) for name, match in named]
            view[run[0].start() : run[-1].end()] = b"".join(records)


def _adjacent(matches: Iterable[re.Match[bytes]]) -> Iterable[list[re.Match[bytes]]]:
    """Yield runs of adjacent matches."""
    run: list[re.Match[bytes]] = []
    for match in matches:
        if run and match.start() != run[-1].end():
            yield run
            run = []
        run.append(match)
    if run:
        yield run


def _name(match: re.Match[bytes]) -> bytes:
    begin = match.end("length")
    return bytes(match.string[begin : begin + int.from_bytes(match["length"], "little")])
