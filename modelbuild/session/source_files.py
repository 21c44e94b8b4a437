"""The workspace's files during a build."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from modelbuild.actions import FileEntry
from modelbuild.build_record.contents import content_text
from modelbuild.errors import BuildError
from modelbuild.loading.tree import FolderStamp, list_folder
from modelbuild.store.local import LocalStore
from modelbuild.wording import size_text

_LARGE = 1_000_000_000  # bytes
_ELSEWHERE = (
    "expected weights in 'weights' of a model, which stores each tensor once, and a file that never changes in an"
    " http_file, outside the workspace"
)


class Sources:
    """The contents of the workspace's files, and of other files by absolute path, with the stamp of each file when it
    was read, and of each listed folder. `absent`: see SourceTree; relative to the root. `verify`: read all files, even
    if their stamps are known."""

    def __init__(
        self, root: Path, store: LocalStore, verify: bool = False, note: Callable[[str], None] = lambda text: None
    ) -> None:
        """`note` is called with a line for a large file that the cache did not know."""
        self._root = root
        self._verify = verify
        self._note = note
        self._store = store
        self._known: dict[str, tuple[Path, FileEntry]] = {}
        self.stamps: dict[str, tuple[int, int, int]] = {}
        self.folders: dict[str, FolderStamp] = {}
        self.absent: set[str] = set()

    def entry(self, path: str) -> tuple[Path, FileEntry]:
        """Return a file's absolute path and content, read once per build, so that all actions see the same. Raises
        BuildError for a missing file or a folder."""
        known = self._known.get(path)
        if known is None:
            absolute = self._root / path
            try:
                state = self._store.files.digest(absolute, self._verify)
            except OSError as error:
                raise BuildError(f"{path} can't be read: {error.strerror or error}; expected a file") from error
            if state.hashed and state.stamp.size > _LARGE and not os.path.isabs(path):
                self._note(
                    f"{path} is a source of {size_text(state.stamp.size)}, read whole after each change; {_ELSEWHERE}"
                )
            self.stamps[path] = (state.stamp.size, state.stamp.ctime_ns, state.stamp.inode)
            known = self._known[path] = (absolute, state.entry)
        return known

    def digests(self) -> dict[str, str]:
        """Return the SHA-256 of each file that was read, by its absolute path."""
        return {str(absolute): entry.digest.hash for absolute, entry in self._known.values()}

    def contents(self) -> dict[str, str]:
        """Return the content of each file that was read, by its path, for the build's record."""
        return {path: content_text(e.digest.hash, e.executable) for path, (_, e) in self._known.items()}

    def listing(self, folder: str) -> tuple[Sequence[str], Sequence[str]]:
        """Return the names of a folder's files, and of its folders, by its absolute path."""
        found = list_folder("", folder)
        self.folders[folder] = found.stamp()
        leading_nowhere = (f"{folder}/{name}" for name in found.links if not found.has(name))
        self.absent.update(os.path.relpath(path, self._root) for path in leading_nowhere)
        return found.files, found.folders

    def keep(self, path: str) -> FileEntry:
        """Store a file that is itself an output. Raises BuildError if it changed meanwhile."""
        absolute, entry = self.entry(path)
        if self._store.missing([entry.digest]):
            try:
                kept = self._store.put_copy(absolute, entry.executable)
            except FileNotFoundError:
                kept = None
            if kept != entry.digest:
                raise BuildError(f"{path} changed during the build; build again")
        return entry
