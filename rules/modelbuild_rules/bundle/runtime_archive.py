"""The type of attributes that name the packed C++ runtime."""

from __future__ import annotations

from typing import Any

from modelbuild.api import Context, Source


class RuntimeArchive(Source):
    """The archive of the C++ runtime, as a path or a label."""

    __slots__ = ()

    where_from = (
        "`make runtime` writes the C++ runtime's archive, build/runtime.tar, and `make runtime ARCH=aarch64`"
        " build/runtime-aarch64.tar; copy or link it here"
    )


def archive_place(ctx: Context[Any]) -> str:
    """Return the place of a target's attribute `runtime`, as "BUILD.toml:4:1", for a step's errors."""
    return str(ctx.error("runtime", "").location)
