"""The type of attributes that name the packed C++ runtime."""

from __future__ import annotations

from modelbuild.api import Source


class RuntimeArchive(Source):
    """The archive of the C++ runtime, as a path or a label."""

    __slots__ = ()

    where_from = (
        "`make runtime` writes the C++ runtime's archive, build/runtime.tar, and `make runtime ARCH=aarch64`"
        " build/runtime-aarch64.tar; copy or link it here"
    )
