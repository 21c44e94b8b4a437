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
from pathlib import Path
from typing import Any

from modelbuild import __version__
from modelbuild.building.request import BuiltTarget, Request

FORMAT = 1

# A file changed within this many nanoseconds of being looked at may change again without its stamp showing it:
# file systems' clocks tick every 1 to 10 ms.
GRANULARITY = 20_000_000

# size, mtime_ns, inode; for a folder the size says nothing and is 0.
Stamp = tuple[int, int, int]


def stamp(path: str) -> Stamp | None:
    """What tells that a file or folder is as it was; None when it is not there."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    folder = (status.st_mode & 0o170000) == 0o040000
    return (0 if folder else status.st_size, status.st_mtime_ns, status.st_ino)


def python_stamps() -> dict[str, Stamp | None]:
    """The folders that Python imports from: installing or upgrading a package changes them."""
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
            if known["format"] != FORMAT:
                return None
            root = self._root + "/"
            for path, was in known["stamps"].items():
                now = stamp(path if path.startswith("/") else root + path)
                if (None if now is None else list(now)) != was:
                    return None
            targets = tuple(BuiltTarget(t[0], t[1], tuple(t[2])) for t in known["targets"])
            return targets, int(known["actions"])
        except (OSError, ValueError, KeyError, TypeError, IndexError):
            return None

    def save(
        self,
        request: Request,
        seen: Mapping[str, Stamp | None],
        started_ns: int,
        targets: Iterable[BuiltTarget],
        actions: int,
    ) -> None:
        """Remember a build. `seen` are stamps of what it read, taken before reading, by absolute path or path in the
        workspace; None marks what was looked for and was not there.

        Nothing is remembered while something changed just before it was looked at (see GRANULARITY).
        """
        if any(s is not None and s[1] > started_ns - GRANULARITY for s in seen.values()):
            self.forget(request)
            return
        built = [[t.label, t.config, list(t.outputs)] for t in targets]
        outputs = {path: stamp(f"{self._root}/{path}") for target in built for path in target[2]}
        record: dict[str, Any] = {
            "format": FORMAT,
            "targets": built,
            "actions": actions,
            "stamps": {**seen, **outputs},
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
            os.path.relpath(request.directory, self._root),
            request.patterns,
            request.devices,
            request.profile,
        ]
        digest = hashlib.sha256(json.dumps(identity).encode()).hexdigest()
        return f"{self._folder}/{digest[:32]}.json"
