"""What a finished build looked at and left behind, so that the next one can tell that nothing is to be done.

The null path: nothing here, nor anything that it imports, may import networkx, pydantic, rich or a rule.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from modelbuild import __version__
from modelbuild.building.request import BuiltTarget, Request
from modelbuild.errors import EnvironmentProblem
from modelbuild.loading.tree import list_folder

FORMAT = 1

# A file changed within this many nanoseconds of being looked at may change again without its stamp showing it:
# file systems' clocks tick every 1 to 10 ms.
GRANULARITY = 20_000_000

# size, mtime_ns, inode; of a folder the size says nothing and is 0.
Stamp = tuple[int, int, int]


def stamp(path: str) -> Stamp | None:
    """What tells that a file or folder is as it was; None when it is not there."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    folder = (status.st_mode & 0o170000) == 0o040000
    return (0 if folder else status.st_size, status.st_mtime_ns, status.st_ino)


@dataclass(slots=True)
class Seen:
    """What a build looked at: stamps and listings, taken before reading. Paths are absolute or relative to the root.

    files    what was read
    folders  what was listed: the folder's time, and a digest of the names in it
    absent   files whose absence was relied on
    python   folders that Python imports from: installing or upgrading a package changes them
    """

    files: dict[str, Stamp | None] = field(default_factory=dict)
    folders: dict[str, tuple[int, str]] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)
    python: dict[str, Stamp | None] = field(default_factory=dict)

    def settled(self, started_ns: int) -> bool:
        """Whether every file had been left alone for long enough when the build began (see GRANULARITY)."""
        return all(s is not None and s[1] < started_ns - GRANULARITY for s in self.files.values())


def python_folders() -> dict[str, Stamp | None]:
    """Stamps of the folders that Python imports from."""
    return {path: stamp(path) for path in sys.path if path and os.path.isdir(path)}


class Snapshots:
    """Snapshots of one workspace, one for each different request, kept in its output tree."""

    def __init__(self, root: Path, output: Path, cache: Path) -> None:
        self._root = str(root)
        self._folder = output / ".modelbuild" / "snapshots"
        self._cache = str(cache)

    def up_to_date(self, request: Request) -> tuple[tuple[BuiltTarget, ...], int] | None:
        """The targets and count of actions of the last such build, if nothing that it looked at has changed since."""
        try:
            with open(self._path(request), "rb") as file:
                known = json.loads(file.read())
            if known["format"] == FORMAT and self._holds(known):
                return tuple(BuiltTarget(t[0], t[1], tuple(t[2])) for t in known["targets"]), int(known["actions"])
        except (OSError, ValueError, KeyError, TypeError, IndexError, EnvironmentProblem):
            pass
        return None

    def _holds(self, known: Mapping[str, Any]) -> bool:
        for group in ("files", "outputs", "python"):
            for path, was in known[group].items():
                now = stamp(self._at(path))
                if now is None or list(now) != was:
                    return False
        for path, (mtime_ns, names) in known["folders"].items():
            now = stamp(self._at(path))
            if (now is None or now[1] != mtime_ns) and list_folder(self._root, path).stamp().names != names:
                return False
        return not any(os.path.isfile(self._at(path)) for path in known["absent"])

    def _at(self, path: str) -> str:
        return path if path.startswith("/") else f"{self._root}/{path}"

    def save(self, request: Request, seen: Seen, started_ns: int, targets: Iterable[BuiltTarget], actions: int) -> None:
        """Remember a build; nothing, if a file changed so shortly before that it may yet change unseen."""
        if not seen.settled(started_ns):
            self.forget(request)
            return
        built = [[t.label, t.config, list(t.outputs)] for t in targets]
        record: dict[str, Any] = {
            "format": FORMAT,
            "targets": built,
            "actions": actions,
            "files": seen.files,
            # A folder that changed just before it was listed is compared by the names in it.
            "folders": {p: (t if t < started_ns - GRANULARITY else 0, names) for p, (t, names) in seen.folders.items()},
            "absent": seen.absent,
            "python": seen.python,
            "outputs": {path: stamp(self._at(path)) for target in built for path in target[2]},
        }
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._path(request)
        temporary = f"{path}.{os.getpid()}.{time.monotonic_ns()}"
        with open(temporary, "w") as file:
            json.dump(record, file, separators=(",", ":"))
        os.replace(temporary, path)

    def forget(self, request: Request) -> None:
        """Drop what is known of a request."""
        Path(self._path(request)).unlink(missing_ok=True)

    def _path(self, request: Request) -> str:
        identity = [
            FORMAT,
            __version__,
            sys.version,
            sys.prefix,
            sys.path,
            self._cache,
            request.package,
            request.patterns,
            [str(device) for device in request.devices],
        ]
        digest = hashlib.sha256(json.dumps(identity).encode()).hexdigest()
        return f"{self._folder}/{digest[:32]}.json"
