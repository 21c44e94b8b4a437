"""The Python that steps run in, and the folders that it imports from."""

from __future__ import annotations

import platform
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
)

from modelbuild.code.search_path import search_path


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python with installed distributions.

    program       its absolute path
    prefix        the folder of its environment; `base_prefix` is the folder of the Python that the environment was made
                  with
    version       such as 3.11.7
    path          the folders that it imports from
    suffixes      endings of its extension modules' files
    stdlib        names of Python's own top-level modules
    markers       values of the markers of requirements (PEP 508); None: the markers of this process
    toolchain     the label of the toolchain that it belongs to; '' for the Python that modelbuild runs in
    lock          the lock file of that toolchain, relative to the workspace, or absolute
    """

    program: str
    prefix: str
    base_prefix: str
    version: str
    path: tuple[str, ...]
    suffixes: tuple[str, ...]
    stdlib: Collection[str]
    markers: Mapping[str, str] | None = None
    toolchain: str = ""
    lock: str = ""

    def lock_advice(self, missing: str) -> str:
        """Return the advice for a package that the lock file lacks."""
        if self.toolchain.startswith("@"):
            return f"expected a python_toolchain of your own, whose lock has {missing}"
        return f"add {missing} to the lock of {self.toolchain}"

    def find_module(self, top: str) -> ModuleSpec | None:
        """Return the spec of a top-level module in the folders of `path`, as a process of this Python finds it."""
        places: list[str] = []
        for folder in self.path:
            finder = FileFinder(
                folder, (ExtensionFileLoader, list(self.suffixes)), (SourceFileLoader, list(SOURCE_SUFFIXES))
            )
            spec = finder.find_spec(top)
            if spec is not None and spec.loader is not None:
                return spec
            places += spec.submodule_search_locations or () if spec is not None else ()
        if not places:
            return None
        plain = ModuleSpec(top, None, is_package=True)
        plain.submodule_search_locations = places
        return plain


@cache
def _installed(path: tuple[str, ...], prefix: str) -> Interpreter:
    return Interpreter(
        sys.executable,
        prefix,
        sys.base_prefix,
        platform.python_version(),
        path,
        tuple(EXTENSION_SUFFIXES),
        sys.stdlib_module_names,
    )


def installed() -> Interpreter:
    """Return the Python that modelbuild runs in: the toolchain of workspaces that name no toolchain."""
    return _installed(tuple(search_path()), sys.prefix)
