"""Contents of installed distributions, which keys contain in addition to the version."""

from __future__ import annotations

import base64
import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.machinery import all_suffixes

from modelbuild.actions import Digest, FileEntry, Value
from modelbuild.code.distributions import Distribution, Distributions

_MODULES = tuple(suffix for suffix in all_suffixes() if suffix != ".pyc")

# Digits (hex) of a distribution's digest in keys.
_DIGITS = 32


class InstalledContents:
    """Contents at the time of the first query. Safe for many threads.

    entry  returns the content of a file by its absolute path
    """

    def __init__(self, distributions: Distributions, entry: Callable[[str], FileEntry]) -> None:
        self._distributions = distributions
        self._entry = entry
        self._states: dict[str, str] = {}
        self._stamps: dict[str, tuple[int, int]] = {}
        self._lock = threading.Lock()

    def states(self, names: Iterable[str]) -> dict[str, str]:
        """Return the text for keys of installed distributions: `2.14.0 1f0c...`, the version and a digest of the files.
        For an editable distribution, whose modules are local, it is the version alone."""
        with self._lock:
            return {name: self._state(name) for name in names}

    def contains(self, names: Iterable[str], path: str, value: Value) -> bool:
        """Return whether the states of these distributions contain a file with this path and content: their RECORD
        lists it."""
        found = map(self._distributions.find, names)
        return isinstance(value, FileEntry) and any(
            each is not None and each.records(path, _recorded(value.digest)) for each in found
        )

    def replaced(self, names: Iterable[str]) -> str:
        """Return a distribution that was reinstalled after its state was computed, or ''."""
        return next((name for name in names if name in self._stamps and self._stamp(name) != self._stamps[name]), "")

    def _state(self, name: str) -> str:
        found = self._distributions.find(name)
        assert found is not None
        if name not in self._states:
            if found.has_record:
                self._stamps[name] = self._stamp(name)
                self._states[name] = f"{found.version} {self._digest(found, self._stamps[name][0])}"
            else:
                self._states[name] = found.version
        return self._states[name]

    def _stamp(self, name: str) -> tuple[int, int]:
        """Return mtime (ns) and inode of RECORD, which is written last when a distribution is installed."""
        found = self._distributions.find(name)
        try:
            status = os.stat(found.record_file or "") if found is not None else None
        except OSError:
            status = None
        return (status.st_mtime_ns, status.st_ino) if status is not None else (0, 0)

    def _digest(self, distribution: Distribution, installed: int) -> str:
        """Return a digest of RECORD and of code that differs from RECORD. Reading all installed files would take
        minutes, so a file counts as unchanged if it has the size in RECORD and was not written after `installed` (ns).
        Any other file is read, and so is a module in a package that RECORD does not list."""
        changed = []
        for folder, sizes in distribution.code.items():
            place = f"{distribution.folder}/{folder}" if folder else distribution.folder
            for name, digest in self._suspects(place, sizes, installed):
                path = f"{folder}/{name}".lstrip("/")
                if not distribution.records(path, digest or "-"):
                    changed.append(f"{path} {digest}")
        lines = [*distribution.contents, "", *sorted(changed)]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:_DIGITS]

    def _suspects(self, folder: str, sizes: Mapping[str, int], installed: int) -> Iterator[tuple[str, str]]:
        """Yield name and digest (in RECORD's format; '' for a missing file) of the files of a folder that may have
        changed."""
        there = 0
        package = "__init__.py" in sizes
        with suppress(FileNotFoundError), os.scandir(folder) as entries:
            for entry in entries:
                size = sizes.get(entry.name)
                if size is not None:
                    there += 1
                    status = entry.stat()
                    if status.st_size == size and status.st_mtime_ns < installed:
                        continue
                elif not (package and entry.name.endswith(_MODULES) and os.path.isfile(entry.path)):
                    continue
                yield entry.name, self._read(entry.path)
        if there < len(sizes):
            yield from ((name, "") for name in sizes if not os.path.exists(f"{folder}/{name}"))

    def _read(self, path: str) -> str:
        return _recorded(self._entry(path).digest)


def _recorded(digest: Digest) -> str:
    """Return a digest in RECORD's format."""
    return f"sha256={base64.urlsafe_b64encode(bytes.fromhex(digest.hash)).decode().rstrip('=')}"
