"""What a finished build looked at, from its pieces to a record on disk, and back for the next build that asks for the
same."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from modelbuild import __version__
from modelbuild.building.imports import Importable
from modelbuild.building.narrow import Rest
from modelbuild.building.reads import Reads, merged, write
from modelbuild.building.record import Listed, Record, Stamps, write_record
from modelbuild.building.request import BuiltTarget, Request
from modelbuild.times import granularity, settled
from modelbuild.workspace import OUTPUT_FOLDER, Workspace

# size, ctime_ns, inode of a file.
Stamp = tuple[int, int, int]


def stamp(path: str) -> Stamp | None:
    """What tells that a file is as it was; None when it is not there."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_size, status.st_ctime_ns, status.st_ino)


@dataclass(slots=True)
class Seen:
    """What a build looked at: stamps and listings, taken before reading. Paths are absolute or relative to the root.

    files    what was read
    folders  what was listed: the folder's time, and a digest of the names in it
    absent   files whose absence was relied on
    python   folders that Python imports from (see imports.py)
    began    when looking began, by time.time_ns()
    """

    files: dict[str, Stamp | None] = field(default_factory=dict)
    folders: dict[str, tuple[int, str]] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)
    python: dict[str, Importable] = field(default_factory=dict)
    began: int = field(default_factory=time.time_ns)

    def settled(self) -> bool:
        """Whether every file had been left alone for long enough when the build began (see granularity)."""
        return all(s is not None and s[1] + granularity(s[1]) < self.began for s in self.files.values())

    def over(self, rest: Rest) -> Seen:
        """What this build looked at and what the one before did that it left alone."""
        before = rest.record
        return Seen(
            {**{path: s for path, s in _rows(before.files) if path not in rest.changed}, **self.files},
            {path: (mtime, names) for path, mtime, names in before.folders} | self.folders,
            [*before.absent, *(path for path in self.absent if path not in before.absent)],
            {path: (ctime, names) for path, ctime, names in before.imports} | self.python,
            self.began,
        )


class Snapshots:
    """Records of one workspace's builds, one for each different request, kept in its output tree."""

    def __init__(self, root: Path, output: Path, cache: Path) -> None:
        self._root = str(root)
        self._folder = output / ".modelbuild" / "snapshots"
        self._cache = str(cache)

    @classmethod
    def of(cls, workspace: Workspace) -> Snapshots:
        return cls(workspace.root, workspace.root / OUTPUT_FOLDER, workspace.config.cache_dir)

    def save(
        self,
        request: Request,
        seen: Seen,
        targets: Sequence[BuiltTarget],
        actions: int,
        reads: Reads | None,
        rest: Rest | None = None,
    ) -> None:
        """Remember a build; nothing, if a file changed so shortly before that it may yet change unseen. What a build
        of a part left alone (`rest`) is as it was before; without `reads` so is all that was declared."""
        if not seen.settled():
            self.forget(request)
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self.path(request)
        outputs: Mapping[str, Stamp] = {}
        if rest is not None:
            seen = seen.over(rest)
            left_alone = {path for target in rest.targets for path in target.outputs}
            outputs = {path: s for path, s in _rows(rest.record.outputs) if path in left_alone}
            reads = reads and merged(rest.reads, reads, rest.stale)
        record = Record(
            files=_stamps(seen.files),
            outputs=_output_stamps(self._root, (path for target in targets for path in target.outputs), outputs),
            imports=_listed(seen.python, seen.began),
            folders=_listed(seen.folders, seen.began),
            absent=seen.absent,
            targets=[(t.label, t.config, t.outputs) for t in targets],
            actions=actions,
            token=rest.record.token if rest is not None and reads is None else _token(),
        )
        if reads is not None:
            write(path, reads, record.token)
        write_record(str(path), record)

    def forget(self, request: Request) -> None:
        """Drop what is known of a request."""
        self.path(request).unlink(missing_ok=True)

    def path(self, request: Request) -> Path:
        """Where the record of a request is or would be."""
        identity = [
            __version__,
            sys.version,
            sys.prefix,
            sys.path,
            self._cache,
            request.package,
            request.patterns,
            [str(device) for device in request.devices],
            request.remote.leaves_outputs,
            request.purpose,
        ]
        digest = hashlib.sha256(json.dumps(identity).encode()).hexdigest()
        return self._folder / digest[:32]


def _token() -> int:
    """A number that no other record has."""
    return int.from_bytes(os.urandom(8)) >> 1


def _stamps(known: Mapping[str, Stamp | None]) -> Stamps:
    there = [(path, *s) for path, s in known.items() if s is not None]
    return Stamps(*([row[column] for row in there] for column in range(4)))  # type: ignore[arg-type]


def _listed(folders: Mapping[str, tuple[int, str]], began: int) -> list[Listed]:
    """A folder that changed just before it was listed is compared by the names in it."""
    return [(path, settled(changed, began), names) for path, (changed, names) in folders.items()]


def _rows(stamps: Stamps) -> Iterator[tuple[str, Stamp]]:
    for path, *stamp in zip(stamps.paths, stamps.sizes, stamps.times, stamps.inodes, strict=True):
        yield path, (stamp[0], stamp[1], stamp[2])


def _output_stamps(root: str, paths: Iterable[str], known: Mapping[str, Stamp]) -> Stamps:
    return _stamps({path: known.get(path) or _output_stamp(f"{root}/{path}") for path in paths})


def _output_stamp(path: str) -> Stamp:
    status = os.stat(path)
    return (status.st_size, status.st_mtime_ns, status.st_ino)
