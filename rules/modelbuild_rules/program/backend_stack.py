"""backend_stack: an ordered list of backends for the nodes of a program."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from modelbuild.api import Attrs, Context, Extensible, Provider, Source, rule
from modelbuild_rules.backend_api.backend import Backend
from modelbuild_rules.providers import BackendStack, StackEntry


class BackendStackAttrs(Attrs):
    """A list of backends. Each node of a program is offered to them in this order."""

    backends: Annotated[tuple[Attrs, ...], Extensible("backend")] = Field(min_length=1)
    """Tables such as `{ type = "xnnpack" }`. Unless the last is of type "portable", they must take every node."""


EXAMPLE = """
[[backend_stack]]
name = "xnnpack"
backends = [{ type = "xnnpack" }, { type = "portable" }]
"""


@rule(attrs=BackendStackAttrs, example=EXAMPLE)
def backend_stack(ctx: Context[BackendStackAttrs]) -> tuple[Provider, ...]:
    *_, last = range(len(ctx.attrs.backends))
    entries = []
    for index, table in enumerate(ctx.attrs.backends):
        entry = _entry(ctx, table)
        if entry.backend.is_catch_all and index != last:
            message = f"'{entry.backend.name}' takes all remaining nodes; expected it as the last backend"
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
