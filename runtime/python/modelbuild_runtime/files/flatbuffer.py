"""Read flatbuffers without generated code, checking every offset: tables, vectors and strings by field number.

The format: https://flatbuffers.dev/internals/. A table starts with the (signed) distance back to its vtable; the vtable
contains its own size, the table's size, and a 16-bit offset per field, 0 for a field with its default value.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

_U8, _I8, _U16, _U32, _I32 = (struct.Struct(f"<{code}") for code in "BbHIi")
_U64, _I64, _F64, _BOOL = (struct.Struct(f"<{code}") for code in "Qqd?")


class Malformed(ValueError):
    """Raised for bytes that are not a flatbuffer of the expected kind."""


class Buffer:
    """The bytes of a flatbuffer.

    Tables can share bytes, so a small file can describe an endless tree. The bytes read are counted, and limited to
    `_MOST` times the file's. (Programs are read less than 3 times.)
    """

    __slots__ = ("_left", "data")

    _MOST = 32

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self._left = self._MOST * (len(data) + 1024)

    def count(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise Malformed("its tables share their parts again and again")

    def unpack(self, kind: struct.Struct, at: int) -> int | float | bool:
        if at < 0 or at + kind.size > len(self.data):
            raise Malformed(f"an offset points to byte {at} of {len(self.data)}")
        value: int | float | bool = kind.unpack_from(self.data, at)[0]
        return value

    def uint(self, at: int) -> int:
        return int(self.unpack(_U32, at))


class Table:
    """A table of a flatbuffer. Field numbers are positions in the schema, counted from 0."""

    __slots__ = ("_at", "_buffer", "_fields", "_vtable")

    def __init__(self, buffer: Buffer, at: int) -> None:
        buffer.count(4)
        self._buffer = buffer
        self._at = at
        self._vtable = at - int(buffer.unpack(_I32, at))
        self._fields = (int(buffer.unpack(_U16, self._vtable)) - 4) // 2

    @classmethod
    def root(cls, buffer: Buffer) -> Table:
        return cls(buffer, buffer.uint(0))

    def _field(self, number: int) -> int:
        """Return a field's offset, or 0 if it is absent."""
        if number >= self._fields:
            return 0
        offset = int(self._buffer.unpack(_U16, self._vtable + 4 + 2 * number))
        return self._at + offset if offset else 0

    def _scalar(self, number: int, kind: struct.Struct) -> int | float | bool:
        at = self._field(number)
        return self._buffer.unpack(kind, at) if at else 0

    def u8(self, number: int) -> int:
        return int(self._scalar(number, _U8))

    def i8(self, number: int) -> int:
        return int(self._scalar(number, _I8))

    def i32(self, number: int) -> int:
        return int(self._scalar(number, _I32))

    def u32(self, number: int) -> int:
        return int(self._scalar(number, _U32))

    def u64(self, number: int) -> int:
        return int(self._scalar(number, _U64))

    def i64(self, number: int) -> int:
        return int(self._scalar(number, _I64))

    def f64(self, number: int) -> float:
        return float(self._scalar(number, _F64))

    def boolean(self, number: int) -> bool:
        return bool(self._scalar(number, _BOOL))

    def table(self, number: int) -> Table | None:
        at = self._field(number)
        return Table(self._buffer, at + self._buffer.uint(at)) if at else None

    def string(self, number: int) -> str:
        start, count = self._vector(number, 1)
        self._buffer.count(count)
        if start and self._buffer.unpack(_U8, start + count):
            raise Malformed("a string has no end")
        try:
            return str(self._buffer.data[start : start + count], "utf-8")
        except UnicodeDecodeError as error:
            raise Malformed("a string is not UTF-8") from error

    def extent(self, number: int) -> tuple[int, int]:
        """Return the offset and length of a byte vector; (0, 0) if it is absent."""
        return self._vector(number, 1)

    def i32s(self, number: int) -> tuple[int, ...]:
        return tuple(int(v) for v in self._vector_of(number, _I32))

    def i64s(self, number: int) -> tuple[int, ...]:
        return tuple(int(v) for v in self._vector_of(number, _I64))

    def u8s(self, number: int) -> tuple[int, ...]:
        return tuple(int(v) for v in self._vector_of(number, _U8))

    def tables(self, number: int) -> Iterator[Table]:
        start, count = self._vector(number, 4)
        for at in range(start, start + 4 * count, 4):
            yield Table(self._buffer, at + self._buffer.uint(at))

    def _vector_of(self, number: int, kind: struct.Struct) -> Iterator[int | float | bool]:
        start, count = self._vector(number, kind.size)
        self._buffer.count(kind.size * count)
        for (value,) in kind.iter_unpack(self._buffer.data[start : start + kind.size * count]):
            yield value

    def _vector(self, number: int, size: int) -> tuple[int, int]:
        """Return the offset and number of a vector's or string's elements; (0, 0) if it is absent."""
        at = self._field(number)
        if not at:
            return 0, 0
        at += self._buffer.uint(at)
        count = self._buffer.uint(at)
        if at + 4 + count * size > len(self._buffer.data):
            raise Malformed(f"a vector at byte {at} of {len(self._buffer.data)} claims {count} elements")
        return at + 4, count
