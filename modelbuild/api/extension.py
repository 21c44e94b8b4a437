"""Attributes with tables that other rule packages define, such as the backends of a `backend_stack`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import AfterValidator, Discriminator, Tag, ValidationError, create_model

from modelbuild.api.attrs import Attrs


@dataclass(frozen=True)
class Extension:
    """A kind of table in an extensible attribute.

    point   the extension point, such as "backend"
    name    the value of `type` in the table
    attrs   the schema of the table; its attribute `type` is a Literal of the name
    tools   distributions that it uses; `modelbuild info` prints their versions
    extras  extras of its distribution, each with all that it needs; `modelbuild doctor` checks them

    For backends with blobs that `modelbuild inspect` describes:

    delegate    ExecuTorch's id of the backend
    describing  import name of a module whose `describe(path, offset, size)` returns a Blob, or raises ValueError for
                other bytes
    """

    point: str
    name: str
    attrs: type[Attrs]
    tools: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()
    delegate: str = ""
    describing: str = ""

    @property
    def package(self) -> str:
        """The import name of the rule package with the schema."""
        return self.attrs.__module__.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Extensible:
    """Marks a table of an extension of this point: `backends: tuple[Annotated[Attrs, Extensible("backend")], ...]`.
    With `by_name`, an extension's name stands for its table without other attributes."""

    point: str
    by_name: bool = True


def extended(attrs: type[Attrs], extensions: Mapping[str, Mapping[str, Extension]]) -> type[Attrs]:
    """Return a schema whose extensible tables come from extensions (point -> name -> extension)."""

    def table(mark: Extensible) -> Any:
        schemas = {name: each.attrs for name, each in sorted(extensions.get(mark.point, {}).items())}
        return _table(schemas, mark.by_name)

    fields: dict[str, Any] = {}
    for name, info in attrs.model_fields.items():
        whole = Annotated[info.annotation, *info.metadata] if info.metadata else info.annotation
        replaced = _replace(whole, table)
        if replaced is not whole:
            fields[name] = (replaced, info)
    if not fields:
        return attrs
    return create_model(attrs.__name__, __base__=attrs, __module__=attrs.__module__, __doc__=attrs.__doc__, **fields)


def _replace(annotation: Any, table: Callable[[Extensible], Any]) -> Any:
    """Return a type with `table` of each mark in it; the type itself without marks."""
    if get_origin(annotation) is Annotated:
        mark = next((each for each in annotation.__metadata__ if isinstance(each, Extensible)), None)
        if mark is not None:
            return table(mark)
    old = get_args(annotation)[:1] if get_origin(annotation) is Annotated else get_args(annotation)
    new = tuple(_replace(each, table) for each in old)
    if all(one is other for one, other in zip(old, new, strict=True)):
        return annotation
    if get_origin(annotation) is Annotated:
        return Annotated[new[0], *annotation.__metadata__]
    return Union[new] if get_origin(annotation) in (Union, UnionType) else get_origin(annotation)[new]  # noqa: UP007


def _table(schemas: Mapping[str, type[Attrs]], by_name: bool) -> Any:
    tables = tuple(schemas.values())
    table: Any = tables[0] if len(tables) == 1 else Annotated[Union[tables], Discriminator("type")]  # noqa: UP007
    if not by_name:
        return table

    def named(name: str) -> Attrs:
        try:
            return schemas[name].model_validate_json(json.dumps({"type": name}))
        except ValidationError as error:
            lacking = ", ".join(f"'{each['loc'][0]}'" for each in error.errors())
            raise ValueError(f"'{name}' has no default of {lacking}; expected a table with it") from None

    names: Any = Annotated[Literal[tuple(schemas)], AfterValidator(named)]
    return Annotated[Annotated[names, Tag("(name)")] | Annotated[table, Tag("(table)")], Discriminator(_kind)]


def _kind(value: object) -> str:
    return "(name)" if isinstance(value, str) else "(table)"
