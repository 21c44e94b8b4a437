"""Lower the versions of two symbols that a library needs of libstdc++.so.6.

The aarch64 shims of the CUDA delegate need symbols of GCC 13, which the libstdc++ of Ubuntu 22.04 and JetPack 6 lacks.
libmodelbuild_gcc13 (aoti/gcc13.c), which libmodelbuild_aoti links beside the shims, defines both. The loader accepts a
definition without a version for any version, but refuses a library that needs a version which libstdc++ does not have.
"""

from __future__ import annotations

import struct
from pathlib import Path

OLDER = {b"GLIBCXX_3.4.32": b"GLIBCXX_3.4", b"CXXABI_1.3.15": b"CXXABI_1.3"}

_VERNEED = 0x6FFFFFFE
_SECTION, _FILE, _VERSION = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<HHIII"), struct.Struct("<IHHII")


def lower(library: Path) -> None:
    """Replace needed versions by older ones of the same file, as OLDER maps them, in a 64-bit little-endian library."""
    data = bytearray(library.read_bytes())
    (start,), (count,) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<H", data, 60)
    sections = [_SECTION.unpack_from(data, start + number * _SECTION.size) for number in range(count)]
    for _, kind, _, _, offset, _, link, files, _, _ in sections:
        place = offset
        for _ in range(files if kind == _VERNEED else 0):
            _, versions, _, first, following = _FILE.unpack_from(data, place)
            _lower(data, place + first, versions, sections[link][4])
            place += following
    library.write_bytes(data)


def _lower(data: bytearray, place: int, count: int, names: int) -> None:
    """Replace the versions in a list of `count` needed ones; `names` is the position of their names."""
    found: dict[bytes, tuple[int, int, int]] = {}
    for _ in range(count):
        digest, _, _, name, step = _VERSION.unpack_from(data, place)
        found[bytes(data[names + name : data.index(0, names + name)])] = (place, digest, name)
        place += step
    for newer, older in OLDER.items():
        if newer in found:
            at, (_, digest, name) = found[newer][0], found[older]
            struct.pack_into("<I", data, at, digest)
            struct.pack_into("<I", data, at + 8, name)
