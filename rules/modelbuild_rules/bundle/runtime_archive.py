"""The type of attributes that name the packed C++ runtime."""

from __future__ import annotations

from modelbuild.api import Source

ARCHITECTURES = ("x86_64",)
"""The architectures that `make runtime` builds the C++ runtime for."""


class RuntimeArchive(Source):
    """The archive of the C++ runtime, as a path or a label."""

    __slots__ = ()

    where_from = "`make runtime` writes the C++ runtime's archive, build/runtime.tar; copy or link it here"
