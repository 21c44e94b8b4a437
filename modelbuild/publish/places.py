"""The places to which files are published by path: object stores and folders."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from modelbuild.publish.content import PublishedFile
from modelbuild.remote.object_store import translated
from modelbuild.remote.problems import RemoteProblem
from modelbuild.user_files import write_file

_PART = 16 << 20
_MOST = 4 << 20


class Place(Protocol):
    """Files by path. The methods raise OSError or RemoteProblem.

    staging   the folder in which new files are complete before older ones are removed; '' for a store, which cannot
              rename files
    """

    staging: str

    def exists(self, path: str) -> bool:
        """Return whether something is at a path."""

    def read(self, path: str) -> bytes | None:
        """Return the contents of a small file; None if there is none."""

    def write(self, path: str, data: bytes | PublishedFile) -> None:
        """Write a file, which appears complete or not at all."""

    def move(self, path: str) -> None:
        """Move a file from its staging path to its own."""

    def delete(self, path: str) -> None:
        """Delete a file, if it is there."""


class ObjectStore:
    """An object store through obstore."""

    staging = ""

    def __init__(self, store: Any, prefix: str) -> None:
        self._store, self._prefix = store, prefix

    def exists(self, path: str) -> bool:
        import obstore

        try:
            with translated():
                obstore.head(self._store, self._prefix + path)
        except RemoteProblem as problem:
            if problem.kind != "missing":
                raise
            return False
        return True

    def read(self, path: str) -> bytes | None:
        import obstore

        try:
            with translated():
                answer = obstore.get(self._store, self._prefix + path)
                if answer.meta["size"] > _MOST:
                    raise RemoteProblem("wrong", f"{path} is not one that modelbuild wrote")
                return bytes(answer.bytes())
        except RemoteProblem as problem:
            if problem.kind == "missing":
                return None
            raise

    def write(self, path: str, data: bytes | PublishedFile) -> None:
        import obstore

        source = data if isinstance(data, bytes) else data.source
        with translated():
            obstore.put(self._store, self._prefix + path, source, chunk_size=_PART, max_concurrency=2)

    def move(self, path: str) -> None:
        """Do nothing: the staging path is the path."""

    def delete(self, path: str) -> None:
        import obstore

        try:
            with translated():
                obstore.delete(self._store, self._prefix + path)
        except RemoteProblem as problem:
            if problem.kind != "missing":
                raise


class Folder:
    """A folder of this machine."""

    staging = ".modelbuild-publishing"

    def __init__(self, root: Path) -> None:
        self._root = root

    def exists(self, path: str) -> bool:
        return os.path.lexists(self._root / path)

    def read(self, path: str) -> bytes | None:
        try:
            if (self._root / path).stat().st_size > _MOST:
                raise RemoteProblem("wrong", f"{path} is not one that modelbuild wrote")
            return (self._root / path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write(self, path: str, data: bytes | PublishedFile) -> None:
        target = self._root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(data, bytes):
            write_file(target, data)
        else:
            shutil.copyfile(data.source, target)
            target.chmod(0o755 if data.executable else 0o644)

    def move(self, path: str) -> None:
        target, staged = self._root / path, self._root / self.staging / path
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(staged, target)
        self._remove_empty(staged)

    def delete(self, path: str) -> None:
        with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
            (self._root / path).unlink()
            self._remove_empty(self._root / path)

    def _remove_empty(self, path: Path) -> None:
        """Remove the folders above a file that became empty."""
        with suppress(OSError):
            for each in path.relative_to(self._root).parents:
                if each.parts:
                    (self._root / each).rmdir()
