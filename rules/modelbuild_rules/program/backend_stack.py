"""backend_stack: the backends that are offered a program's nodes, in order."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from modelbuild.api import Attrs, Context, Extensible, Provider, Source, rule
from modelbuild_rules.backends.backend import Backend
from modelbuild_rules.providers import BackendStack, StackEntry


class BackendStackAttrs(Attrs):
    """Backends in the order in which they are offered each node of a program."""

    backends: Annotated[tuple[Attrs, ...], Extensible("backend")] = Field(min_length=1)
    """Tables such as `{ type = "xnnpack" }`. Without a last one of type "portable", every node has to be taken."""


@rule(attrs=BackendStackAttrs)
def backend_stack(ctx: Context[BackendStackAttrs]) -> tuple[Provider, ...]:
    *_, last = range(len(ctx.attrs.backends))
    entries = []
    for index, table in enumerate(ctx.attrs.backends):
        entry = _entry(ctx, table)
        if entry.backend.takes_the_rest and index != last:
            message = f"'{entry.backend.name}' takes whatever is left; expected it as the last backend"
            raise ctx.error(("backends", index), message)
        if (found := entry.backend.contradiction(table)) is not None:
            name, message = found
            raise ctx.error(("backends", index, name), message)
        entries.append(entry)
    return (BackendStack(tuple(entries)),)


def _entry(ctx: Context[BackendStackAttrs], table: Attrs) -> StackEntry:
    attributes: dict[str, Any] = table.model_dump(mode="json")
    backend = ctx.extension("backend", attributes.pop("type"))
    assert isinstance(backend, Backend)
    files = {
        name: ctx.file(value) for name in type(table).model_fields if isinstance(value := getattr(table, name), Source)
    }
    return StackEntry(backend, {k: v for k, v in attributes.items() if k not in files}, files)
