"""Read flatbuffers, checking every offset: tables, vectors and strings by the fields of a schema (schema.py).

The format: https://flatbuffers.dev/internals/. A table starts with the (signed) distance back to its vtable; the vtable
contains its own size, the table's size, and a 16-bit offset per field, 0 for a field with its default value.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

_NUMBERS = {
    **{"bool": struct.Struct("<?"), "int8": struct.Struct("<b"), "uint8": struct.Struct("<B")},
    **{"int32": struct.Struct("<i"), "uint32": struct.Struct("<I")},
    **{"int64": struct.Struct("<q"), "uint64": struct.Struct("<Q"), "float64": struct.Struct("<d")},
}
_U16 = struct.Struct("<H")


class Field(NamedTuple):
    """A field of a table.

    number     its position in the schema, from 0
    type       of a number such as "int32", "string", "table NAME" or "union NAME" (the field before is the number of
               its member), or a vector, whose item type is in brackets
    alignment  of a vector, in bytes; 0 for the items' alignment
    """

    number: int
    type: str
    alignment: int = 0

    @property
    def item(self) -> str:
        """The type of a vector's items; of another field, its own."""
        return self.type.strip("[]")


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
        return int(self.unpack(_NUMBERS["uint32"], at))


class Table:
    """A table of a flatbuffer."""

    __slots__ = ("_at", "_buffer", "_fields", "_vtable")

    def __init__(self, buffer: Buffer, at: int) -> None:
        buffer.count(4)
        self._buffer = buffer
        self._at = at
        self._vtable = at - int(buffer.unpack(_NUMBERS["int32"], at))
        self._fields = (int(buffer.unpack(_U16, self._vtable)) - 4) // 2

    @classmethod
    def root(cls, buffer: Buffer) -> Table:
        return cls(buffer, buffer.uint(0))

    def _offset(self, field: Field) -> int:
        """Return a field's offset, or 0 if it is absent."""
        if field.number >= self._fields:
            return 0
        offset = int(self._buffer.unpack(_U16, self._vtable + 4 + 2 * field.number))
        return self._at + offset if offset else 0

    def has(self, field: Field) -> bool:
        return self._offset(field) != 0

    def number(self, field: Field) -> int | float | bool:
        """Return a number; 0 if it is absent."""
        at = self._offset(field)
        return self._buffer.unpack(_NUMBERS[field.type], at) if at else 0

    def integer(self, field: Field) -> int:
        return int(self.number(field))

    def table(self, field: Field) -> Table | None:
        at = self._offset(field)
        return Table(self._buffer, at + self._buffer.uint(at)) if at else None

    def string(self, field: Field) -> str:
        start, count = self._vector(field, 1)
        self._buffer.count(count)
        if start and self._buffer.unpack(_NUMBERS["uint8"], start + count):
            raise Malformed("a string has no end")
        try:
            return str(self._buffer.data[start : start + count], "utf-8")
        except UnicodeDecodeError as error:
            raise Malformed("a string is not UTF-8") from error

    def extent(self, field: Field) -> tuple[int, int]:
        """Return the offset and length of a byte vector; (0, 0) if it is absent."""
        return self._vector(field, 1)

    def numbers(self, field: Field) -> Iterator[int | float | bool]:
        """Yield the numbers of a vector; none if it is absent."""
        kind = _NUMBERS[field.item]
        start, count = self._vector(field, kind.size)
        self._buffer.count(kind.size * count)
        for (value,) in kind.iter_unpack(self._buffer.data[start : start + kind.size * count]):
            yield value

    def integers(self, field: Field) -> tuple[int, ...]:
        return tuple(int(value) for value in self.numbers(field))

    def tables(self, field: Field) -> Iterator[Table]:
        start, count = self._vector(field, 4)
        for at in range(start, start + 4 * count, 4):
            yield Table(self._buffer, at + self._buffer.uint(at))

    def _vector(self, field: Field, size: int) -> tuple[int, int]:
        """Return the offset and number of a vector's or string's elements; (0, 0) if it is absent."""
        at = self._offset(field)
        if not at:
            return 0, 0
        at += self._buffer.uint(at)
        count = self._buffer.uint(at)
        if at + 4 + count * size > len(self._buffer.data):
            raise Malformed(f"a vector at byte {at} of {len(self._buffer.data)} claims {count} elements")
        return at + 4, count
