"""The Python files of an entry: its own file, and the files of its package that it imports."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from modelbuild.code.step_sources import imported_names
from modelbuild.loading.loader import Loader
from modelbuild.loading.tree import BOUNDARIES, join
from modelbuild.workspace.toml_document import Stamp, Where


class EntryFiles:
    """Finds and reads files once. Paths are below the root.

    read  stamps of the files, from the time of reading
    """

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self._found: dict[tuple[str, str], tuple[str, ...]] = {}
        self._imports: dict[str, tuple[tuple[str, int], ...]] = {}
        self.read: dict[str, Stamp] = {}

    def find(self, package: str, file: str, at: Where) -> tuple[str, ...]:
        """Return the paths of a file, named relative to its package, and of the package's files that it imports,
        directly or through others: by workspace path, or by name from the file's folder. The file itself comes first.

        Raises LoadingError at the reference if there is no such file. A file that is not Python imports none.
        """
        path = self._loader.source(package, file, at)
        if (package, path) not in self._found:
            found: dict[str, None] = {}
            waiting = [path]
            while waiting:
                each = waiting.pop()
                if each not in found:
                    found[each] = None
                    waiting += self._imported(package, path, each)
            self._found[package, path] = (path, *sorted(found.keys() - {path}))
        return self._found[package, path]

    def _imported(self, package: str, entry: str, path: str) -> Iterator[str]:
        """Yield the files of the package that a file imports, and the packages of Python around it."""
        own = package.split("/") if package else []
        folders = path.split("/")[len(own) : -1]
        yield from self._files(package, package, [*folders, "__init__"])
        for name, level in self._names(path):
            parts = name.split(".") if name else []
            if level:
                base = folders[: len(folders) - level + 1]
                if level <= len(folders) + 1:
                    yield from self._files(package, join(package, "/".join(base)), parts or ["__init__"])
                continue
            if parts[: len(own)] == own:
                yield from self._files(package, package, parts[len(own) :])
            yield from self._files(package, os.path.dirname(entry), parts)

    def _files(self, package: str, folder: str, parts: Sequence[str]) -> Iterator[str]:
        """Yield the files of a module below a folder: its own, and the `__init__.py` of each folder on the way."""
        for part in parts:
            if self._has(package, folder, f"{part}.py"):
                yield join(folder, f"{part}.py")
            folder = join(folder, part)
            if self._has(package, folder, "__init__.py"):
                yield join(folder, "__init__.py")

    def _has(self, package: str, folder: str, name: str) -> bool:
        """Return whether a folder has a file that belongs to the package. Each name is checked separately, because
        after a listing any new file in the folder would count as a change."""
        if not self._loader.has_file(join(folder, name)):
            return False
        while folder != package:
            if os.path.islink(self._loader.workspace.root / folder):
                return False
            if any(self._loader.has_file(join(folder, each)) for each in BOUNDARIES):
                return False
            folder = os.path.dirname(folder)
        return True

    def _names(self, path: str) -> tuple[tuple[str, int], ...]:
        if path not in self._imports:
            self._imports[path] = ()
            try:
                with open(self._loader.workspace.root / path, "rb") as file:
                    self.read[path] = Stamp.of(os.fstat(file.fileno()))
                    self._imports[path] = tuple(imported_names(file.read()))
            except (OSError, SyntaxError):  # reported by the action that reads it
                pass
        return self._imports[path]
