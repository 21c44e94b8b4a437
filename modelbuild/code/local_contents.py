"""Local modules by content: the files that are laid out for actions that import them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from modelbuild.actions import FileEntry, StagedInput
from modelbuild.code.local_modules import LocalModule
from modelbuild.paths import LOCAL


class Files(Protocol):
    """Files and folders by absolute path, read once per build."""

    def entry(self, path: str) -> tuple[Path, FileEntry]:
        """Return a file's path and content."""

    def listing(self, folder: str) -> tuple[Sequence[str], Sequence[str]]:
        """Return the names of a folder's files, and of its folders except Python's byte code."""


class LocalContents:
    """Contents at the time of the first query. Safe for many threads."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._staged: dict[LocalModule, tuple[StagedInput, ...]] = {}
        self._lock = threading.Lock()

    def staged(self, modules: Iterable[LocalModule]) -> tuple[StagedInput, ...]:
        """Return the files of local modules, laid out below LOCAL so that Python finds them by their import names."""
        with self._lock:
            return tuple(item for module in modules for item in self._module(module))

    def _module(self, module: LocalModule) -> tuple[StagedInput, ...]:
        if module not in self._staged:
            place = f"{LOCAL}/{module.name.replace('.', '/')}"
            if os.path.isfile(module.path):
                place = f"{os.path.dirname(place)}/{os.path.basename(module.path)}"
            below = self._below(module.path) if os.path.isdir(module.path) else [""]
            paths = [(place + path, *self._files.entry(module.path + path)) for path in below]
            self._staged[module] = tuple(StagedInput(module.name, path, file, entry) for path, file, entry in paths)
        return self._staged[module]

    def _below(self, folder: str) -> Iterator[str]:
        """Yield the paths of the visible files below a folder, each with a leading '/'."""
        files, folders = self._files.listing(folder)
        yield from (f"/{name}" for name in files if not name.startswith("."))
        for name in folders:
            if not name.startswith("."):
                yield from (f"/{name}{path}" for path in self._below(f"{folder}/{name}"))
