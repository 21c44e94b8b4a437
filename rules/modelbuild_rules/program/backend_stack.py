"""backend_stack: an ordered list of backends for the nodes of a program."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from modelbuild.api import Attrs, Context, Dep, Extensible, Provider, Source, rule
from modelbuild_rules.backend_api.backend import Backend
from modelbuild_rules.model.inputs import Place
from modelbuild_rules.providers import BackendStack, StackEntry

Backends = Annotated[tuple[Annotated[Attrs, Extensible("backend")], ...], Field(min_length=1)]


class BackendStackAttrs(Attrs):
    """Backends, in the order in which they are offered each node of a program."""

    backends: Backends
    """Unless the last backend is "portable", they must take every node."""


EXAMPLE = """
[[backend_stack]]
name = "xnnpack"
backends = ["xnnpack", "portable"]
"""


@rule(attrs=BackendStackAttrs, example=EXAMPLE)
def backend_stack(ctx: Context[BackendStackAttrs]) -> tuple[Provider, ...]:
    return (BackendStack(_entries(ctx, ("backends",), ctx.attrs.backends)),)


def stack_at(ctx: Context[Any], place: Place, given: Dep | Backends) -> tuple[StackEntry, ...]:
    """Return the backends of an attribute: the label of a stack, or the stack itself."""
    return _entries(ctx, place, given) if isinstance(given, tuple) else ctx.provider(given, BackendStack).backends


def stack_name(given: object) -> str:
    """Return the label of a stack, or the names of its backends, for messages; '' for None."""
    return ", ".join(getattr(table, "type", "") for table in given) if isinstance(given, tuple) else str(given or "")


def _entries(ctx: Context[Any], place: Place, tables: Backends) -> tuple[StackEntry, ...]:
    *_, last = range(len(tables))
    entries = []
    for index, table in enumerate(tables):
        entry = _entry(ctx, (*place, index), table)
        if entry.backend.is_catch_all and index != last:
            message = f"'{entry.backend.name}' takes all remaining nodes; expected it as the last backend"
            raise ctx.error((*place, index), message)
        if (found := entry.backend.contradiction(table)) is not None:
            name, message = found
            raise ctx.error((*place, index, name), message)
        entries.append(entry)
    return tuple(entries)


def _entry(ctx: Context[Any], place: Place, table: Attrs) -> StackEntry:
    attributes: dict[str, Any] = table.model_dump(mode="json")
    backend = ctx.extension("backend", attributes.pop("type"))
    assert isinstance(backend, Backend)
    files = {
        name: ctx.file(value) for name in type(table).model_fields if isinstance(value := getattr(table, name), Source)
    }
    places = {name: str(ctx.error((*place, name), "").location) for name in table.model_fields_set & attributes.keys()}
    return StackEntry(backend, {k: v for k, v in attributes.items() if k not in files}, files, places)
