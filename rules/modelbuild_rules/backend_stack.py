"""backend_stack: the backends that are offered a program's nodes, in order."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from modelbuild.api import Attrs, Context, Provider, Source, rule
from modelbuild_rules import cuda_backend, tensorrt_backend
from modelbuild_rules.backends import Backends
from modelbuild_rules.cuda_backend import Cuda
from modelbuild_rules.providers import Backend, BackendStack
from modelbuild_rules.tensorrt_backend import Tensorrt


class BackendStackAttrs(Attrs):
    """Backends in the order in which they are offered each node of a program."""

    backends: Backends = Field(min_length=1)
    """Tables such as `{ type = "xnnpack" }`. Without a last one of type "portable", every node has to be taken."""


@rule(attrs=BackendStackAttrs)
def backend_stack(ctx: Context[BackendStackAttrs]) -> tuple[Provider, ...]:
    *_, last = range(len(ctx.attrs.backends))
    for index, table in enumerate(ctx.attrs.backends):
        if table.type == "portable" and index != last:
            raise ctx.error(("backends", index), "'portable' takes whatever is left; expected it as the last backend")
        if (found := _contradiction(table)) is not None:
            name, message = found
            raise ctx.error(("backends", index, name), message)
    return (BackendStack(tuple(_backend(ctx, table) for table in ctx.attrs.backends)),)


def _contradiction(table: Attrs) -> tuple[str, str] | None:
    if isinstance(table, Tensorrt):
        return tensorrt_backend.contradiction(table)
    return cuda_backend.contradiction(table) if isinstance(table, Cuda) else None


def _backend(ctx: Context[BackendStackAttrs], table: Attrs) -> Backend:
    attributes: dict[str, Any] = table.model_dump(mode="json")
    files = {
        name: ctx.file(value) for name in type(table).model_fields if isinstance(value := getattr(table, name), Source)
    }
    return Backend(attributes.pop("type"), {k: v for k, v in attributes.items() if k not in files}, files)
