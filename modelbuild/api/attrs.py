"""Attribute schemas: pydantic models, and the types of references to files and targets in them."""

from __future__ import annotations

import ast
import inspect
import os
import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

# pydantic would look for plugins in every installed distribution; only rules decide about valid values.
os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    Tag,
)
from pydantic_core import core_schema

from modelbuild.durations import parse_duration
from modelbuild.sizes import parse_size

if TYPE_CHECKING:
    from pydantic.json_schema import JsonSchemaValue

    from modelbuild.api.providers import Provider

Path: TypeAlias = tuple[str | int, ...]


class Attrs(BaseModel):
    """Base of a rule's attributes and of tables inside them. Types are strict. The string below an attribute describes
    it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    # Old names of attributes, which are errors, and their new names; "limits.bytes" is a name in a table.
    renamed: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        # pydantic's use_attribute_docstrings would read the sources of all rules on every load.

        made = handler(schema)
        properties = handler.resolve_ref_schema(made).get("properties", {})
        for base in reversed(cls.__mro__):
            for name, text in attribute_docs(base).items() if issubclass(base, Attrs) else ():
                info = cls.model_fields[name]
                properties[info.alias or name].setdefault("description", text)
        return made


class _Reference(str):
    __slots__ = ()

    refers_to: ClassVar[str]
    """The word for its `format` in the JSON Schema."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(cls, core_schema.str_schema(min_length=1))

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {**handler(schema), "format": cls.refers_to}


class Source(_Reference):
    """A file: a path relative to the package, or the label (`//pkg:name`, `:name`) of a target that provides files."""

    __slots__ = ()

    refers_to = "file"
    where_from: ClassVar[str] = ""
    """In a subclass: how to get a missing file. Printed with the error."""

    @property
    def is_label(self) -> bool:
        return self.startswith(("//", ":"))


class Entry(_Reference):
    """A function or class in a Python file of the package, as `file.py:name`. It stands for that file and the package's
    files that it imports, directly or through others: by workspace path, or by name from the file's folder."""

    __slots__ = ()

    refers_to = "entry"

    @property
    def file(self) -> str:
        return self.partition(":")[0]

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(cls._checked, core_schema.str_schema())

    @classmethod
    def _checked(cls, text: str) -> Entry:
        if not re.fullmatch(r"[\w./-]+\.py:[A-Za-z_]\w*", text):
            raise ValueError(f"expected 'file.py:name', got '{text}'")
        return cls(text)


class Dep(_Reference):
    """The label of a target whose providers the rule reads."""

    __slots__ = ()

    refers_to = "label"


class LabelOf:
    """Names the providers of a label's target, for help: `Annotated[Dep, LabelOf(Program)]`."""

    __slots__ = ("rules",)

    def __init__(self, *providers: type[Provider]) -> None:
        self.rules = [rule for provider in providers for rule in provider.made_by]

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {**handler(schema), "rules": self.rules}


class Glob(Attrs):
    """Files of the package by pattern (`*`, `?`, `**`), sorted, without files of other packages."""

    glob: tuple[str, ...] = Field(min_length=1)
    """Patterns of the files."""

    exclude: tuple[str, ...] = ()
    """Patterns of files to exclude."""

    allow_empty: bool = False
    """Allow patterns that match no file."""


def _kind(value: object) -> str:
    # In parentheses, because pydantic puts it into error paths, and an attribute may have the same name.
    return "(glob)" if isinstance(value, (dict, Glob)) else "(list)"


Reference: TypeAlias = Source | Entry | Dep | Glob

Sources: TypeAlias = Annotated[
    Annotated[tuple[Source, ...], Tag("(list)")] | Annotated[Glob, Tag("(glob)")], Discriminator(_kind)
]


# Bytes, given as a number or as text such as "20GiB"; the validated value is the number.
Size: TypeAlias = Annotated[int | str, AfterValidator(parse_size), Field(json_schema_extra={"format": "size"})]

# Seconds, given as a number or as text such as "30 min"; the validated value is the number.
Duration: TypeAlias = Annotated[
    int | str, AfterValidator(parse_duration), Field(json_schema_extra={"format": "duration"})
]


def references(value: object, path: Path = ()) -> Iterator[tuple[Path, Reference]]:
    """Yield every reference inside a validated value, with its path in the BUILD file."""
    if isinstance(value, (Source, Entry, Dep, Glob)):
        yield path, value
    elif isinstance(value, BaseModel):
        for name, info in type(value).model_fields.items():
            yield from references(getattr(value, name), (*path, info.alias or name))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from references(item, (*path, key))
    elif isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            yield from references(item, (*path, index))


def attribute_docs(schema: type) -> dict[str, str]:
    """Return the docstrings of a class's attributes by attribute; empty if the source cannot be read."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(schema)))
    except (OSError, TypeError, SyntaxError):
        return {}
    (declared,) = tree.body
    assert isinstance(declared, ast.ClassDef)
    found: dict[str, str] = {}
    for attribute, text in zip(declared.body, declared.body[1:], strict=False):
        match attribute, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(doc))):
                found[name] = inspect.cleandoc(doc)
    return found
