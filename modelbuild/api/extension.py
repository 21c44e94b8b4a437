"""Attributes with tables that other rule packages define, such as the backends of a `backend_stack`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Union

from pydantic import Discriminator, create_model

from modelbuild.api.attrs import Attrs


@dataclass(frozen=True)
class Extension:
    """One kind of table in an extensible attribute. Any module of a rule package may define extensions.

    point   the name of the extension point, such as "backend"
    name    the value of `type` in the table
    attrs   the schema of the table; its attribute `type` is a Literal of the name
    tools   names of distributions that it uses; `modelbuild info` prints their versions
    extras  extras of its distribution, each of which installs all that it needs; `modelbuild doctor` checks them

    Only for backends with blobs that `modelbuild inspect` describes:

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
        """The import name of the rule package that holds the schema."""
        return self.attrs.__module__.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Extensible:
    """Marks an attribute as a list of tables, each of an extension of this point:
    `backends: Annotated[tuple[Attrs, ...], Extensible("backend")]`."""

    point: str


def extended(attrs: type[Attrs], extensions: Mapping[str, Mapping[str, Extension]]) -> type[Attrs]:
    """Return a schema whose extensible attributes accept the tables of the extensions (point -> name -> extension)."""
    fields: dict[str, Any] = {}
    for name, info in attrs.model_fields.items():
        mark = next((each for each in info.metadata if isinstance(each, Extensible)), None)
        if mark is None:
            continue
        tables = [each.attrs for _, each in sorted(extensions.get(mark.point, {}).items())]
        table: Any = tables[0] if len(tables) == 1 else Annotated[Union[tuple(tables)], Discriminator("type")]  # noqa: UP007
        fields[name] = (tuple[table, ...], info)
    if not fields:
        return attrs
    return create_model(attrs.__name__, __base__=attrs, __module__=attrs.__module__, __doc__=attrs.__doc__, **fields)
