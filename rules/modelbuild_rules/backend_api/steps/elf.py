"""Read ELF files: the machine and, for 64-bit little-endian files, the symbols and the glibc that they need."""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path

_MACHINES = {62: "x86_64", 183: "aarch64"}
_SYMTAB, _DYNAMIC, _DYNSYM, _VERNEED, _VERSYM = 2, 6, 11, 0x6FFFFFFE, 0x6FFFFFFF
_NEEDED = 1  # of a dynamic section
_WEAK = 2
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")


@dataclass(frozen=True, slots=True)
class Needs:
    """The requirements of a library or an object file.

    undefined   unversioned symbols that the process must define
    defined     symbols that it exports (for an object file, all its symbols)
    glibc       the newest glibc version of its symbols, as (2, 17); (0, 0) if no symbol has a version
    libraries   names of the libraries that it loads
    """

    undefined: frozenset[str]
    defined: frozenset[str]
    glibc: tuple[int, ...]
    libraries: frozenset[str] = frozenset()


def machine(path: Path) -> str | None:
    """Return the architecture of an ELF file, as "x86_64"; None if the file is not ELF."""
    with path.open("rb") as file:
        head = file.read(20)
    if head[:4] != b"\x7fELF":
        return None
    number = int.from_bytes(head[18:20], "big" if head[5:6] == b"\2" else "little")
    return _MACHINES.get(number, f"ELF machine {number}")


def needs(path: Path) -> Needs:
    """Read the requirements of a library. Raises ValueError for a file that is not 64-bit little-endian ELF."""
    # Mapped: TensorRT's libraries have hundreds of megabytes.
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return _needs(path, data)


def _needs(path: Path, data: mmap.mmap) -> Needs:
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError(f"{path.name} is not a 64-bit little-endian ELF file")
    (start,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    sections = [_SECTION.unpack_from(data, start + number * size) for number in range(count)]
    undefined, defined, libraries = set(), set(), set()
    versions: set[tuple[int, ...]] = {(0, 0)}
    versioned = {
        number
        for _, kind, _, _, offset, length, *_ in sections
        if kind == _VERSYM
        for number, (index,) in enumerate(struct.iter_unpack("<H", data[offset : offset + length]))
        if index & 0x7FFF > 1
    }
    for _, kind, _, _, offset, length, link, info, _, _ in sections:
        names = sections[link][4] if link < count else 0
        if kind in (_DYNSYM, _SYMTAB):
            for number, symbol in enumerate(_SYMBOL.iter_unpack(data[offset : offset + length])):
                name, about, _, section, _, _ = symbol
                if section:
                    defined.add(_text(data, names + name))
                elif about >> 4 != _WEAK and number not in versioned:
                    undefined.add(_text(data, names + name))
        elif kind == _VERNEED:
            versions |= _glibc(data, offset, info, names)
        elif kind == _DYNAMIC:
            entries = struct.iter_unpack("<QQ", data[offset : offset + length])
            libraries |= {_text(data, names + place) for tag, place in entries if tag == _NEEDED}
    return Needs(frozenset(undefined - {""}), frozenset(defined), max(versions), frozenset(libraries))


def _glibc(data: mmap.mmap, offset: int, count: int, names: int) -> set[tuple[int, ...]]:
    found = set()
    for _ in range(count):
        _, entries, _, first, following = struct.unpack_from("<HHIII", data, offset)
        place = offset + first
        for _ in range(entries):
            _, _, _, name, step = struct.unpack_from("<IHHII", data, place)
            version = _text(data, names + name)
            if version.startswith("GLIBC_2"):
                found.add(tuple(int(part) for part in version.removeprefix("GLIBC_").split(".")))
            place += step
        offset += following
    return found


def _text(data: mmap.mmap, place: int) -> str:
    end = data.find(b"\0", place)
    if end < 0:
        raise ValueError("a name does not end")
    return data[place:end].decode()
