"""Read and write tables of ExecuTorch's schemas (modelbuild_runtime/files/schema.py) as Python objects. Torch-free."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any, TypeAlias

from modelbuild_runtime.files import schema
from modelbuild_runtime.files.flatbuffer import Buffer, Field, Table

# A class of the schema, whose attributes are fields.
Kind: TypeAlias = Any

_SIZES = {"bool": 1, "int8": 1, "uint8": 1, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8, "float64": 8}
_REFERENCE = 4  # bytes of a reference to a string, vector or table


class Record(SimpleNamespace):
    """A table: an attribute for each field of the schema. A missing field is 0, or None if its value is not a number.
    Raises AttributeError for an unknown field.

    Strings are text, vectors of bytes are bytes, other vectors are lists. A union is its record, after its number.
    """

    def __init__(self, kind: Kind, **fields: Any) -> None:
        absent = {name: 0 if field.type in _SIZES else None for name, field in _fields(kind)}
        unknown = next((name for name in fields if name not in absent), None)
        if unknown is not None:
            raise AttributeError(f"{kind.__name__} has no field {unknown}")
        super().__init__(**absent | fields)
        self._kind = kind


@cache
def _fields(kind: Kind) -> tuple[tuple[str, Field], ...]:
    return tuple((name, field) for name, field in vars(kind).items() if isinstance(field, Field))


def read_program(data: bytes) -> Any:
    """Return the Program of a .pte's flatbuffer, with or without its extended header. Raises Malformed."""
    return _read(Table.root(Buffer(memoryview(data))), schema.Program)


def _read(table: Table | None, kind: Kind) -> Record | None:
    if table is None:
        return None
    made = Record(kind)
    for name, field in _fields(kind):
        if field.type in _SIZES:
            setattr(made, name, table.number(field))
        elif table.has(field):
            setattr(made, name, _value(table, field, getattr(made, f"{name}_type", 0)))
    return made


def _value(table: Table, field: Field, member: int) -> Any:
    """Return the value of a field. `member` is the number of a union's member."""
    if field.type == "string":
        return table.string(field)
    if field.item in _SIZES:
        return bytes(table.integers(field)) if field.item == "uint8" else list(table.numbers(field))
    what, name = field.item.split()
    if what == "union":
        name = next(name for name, number in vars(getattr(schema, name)).items() if number == member)
    kind = getattr(schema, name)
    if field.type == field.item:
        return _read(table.table(field), kind)
    return [_read(each, kind) for each in table.tables(field)]


def write_program(program: Any) -> bytes:
    """Return the flatbuffer of a Program, with the bytes that executorch writes."""
    return _finished(program, b"ET12", by_size=False)


def write_flat_tensor(flat_tensor: Any) -> bytes:
    """Return the flatbuffer of a PtdFlatTensor, with the bytes that executorch writes."""
    return _finished(flat_tensor, b"FT01", by_size=True)


def _finished(root: Record, identifier: bytes, by_size: bool) -> bytes:
    """`by_size`: whether larger fields of a table come first, as flatc puts them."""
    import flatbuffers  # type: ignore[import-untyped]

    builder = flatbuffers.Builder()
    builder.Finish(_write(builder, root, by_size), file_identifier=identifier)
    return bytes(builder.Output())


def _write(builder: Any, record: Record, by_size: bool) -> int:
    """Write a table, after everything that it refers to. Return its offset."""
    values = [(field, getattr(record, name)) for name, field in _fields(record._kind)]
    count = len(values)
    values = [
        (field, value if field.type in _SIZES else _write_value(builder, field, value, by_size))
        for field, value in values
        if value is not None
    ]
    if by_size:
        values.sort(key=lambda each: (-_SIZES.get(each[0].type, _REFERENCE), -each[0].number))
    builder.StartObject(count)
    for field, value in values:
        if field.type in _SIZES:
            getattr(builder, f"Prepend{field.type.capitalize()}Slot")(field.number, value, 0)
        else:
            builder.PrependUOffsetTRelativeSlot(field.number, value, 0)
    return int(builder.EndObject())


def _write_value(builder: Any, field: Field, value: Any, by_size: bool) -> int:
    """Write what a field refers to. Return its offset."""
    if field.type == "string":
        return int(builder.CreateString(value))
    if field.type == field.item:
        return _write(builder, value, by_size)
    if field.item in _SIZES:
        items, size, prepend = value, _SIZES[field.item], getattr(builder, f"Prepend{field.item.capitalize()}")
    else:
        items, size = [_write(builder, each, by_size) for each in value], _REFERENCE
        prepend = builder.PrependUOffsetTRelative
    builder.StartVector(size, len(items), field.alignment or size)
    for item in reversed(items):
        prepend(item)
    return int(builder.EndVector())
