"""Create a build's record from its parts, save it, and find it for the next equal request."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from modelbuild import __version__
from modelbuild.build_record.contents import Stamp, read_contents
from modelbuild.build_record.import_folders import Importable, import_path, importable
from modelbuild.build_record.record import Listed, Record, Stamps, Surroundings, write_record
from modelbuild.build_record.stale_targets import BuiltTarget, StaleTargets, above, find_stale
from modelbuild.build_record.target_reads import TargetReads, merge_reads, write_reads
from modelbuild.store.file_systems import devices_without_ctimes
from modelbuild.store.files import make_folder
from modelbuild.times import granularity, settled
from modelbuild.workspace.workspace import OUTPUT_FOLDER, Workspace

# Size, mtime below the second, inode and mode of an output (see output_tree.OutputStamp).
OutputStamp = tuple[int, int, int, int]


def stamp(path: str) -> Stamp | None:
    """Return the stamp of a file; None if it is missing."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_size, status.st_ctime_ns, status.st_ino)


@dataclass(slots=True)
class Seen:
    """The inputs and outputs of a build: stamps and listings, taken before reading. Paths are absolute or relative to
    the root.

    files    files that were read
    folders  folders that were listed
    present  paths where a regular file was required; `absent`: paths where no regular file was required
    python   folders that Python imports from (see import_folders.py)
    outputs  stamps of the files that were laid out
    began    start time, by time.time_ns()
    started  the same, by time.monotonic()
    """

    files: dict[str, Stamp | None] = field(default_factory=dict)
    folders: dict[str, tuple[int, int, str]] = field(default_factory=dict)
    present: set[str] = field(default_factory=set)
    absent: set[str] = field(default_factory=set)
    python: dict[str, Importable] = field(default_factory=dict)
    outputs: dict[str, OutputStamp] = field(default_factory=dict)
    began: int = field(default_factory=time.time_ns)
    started: float = field(default_factory=time.monotonic)

    @classmethod
    def start(cls) -> Seen:
        """Return the state that a build sees before it reads or imports anything."""
        seen = cls()
        seen.python.update(importable(import_path()))
        return seen

    def settled(self) -> bool:
        """Return whether every file was older than the clock's granularity when the build began (see granularity)."""
        return all(s is not None and s[1] + granularity(s[1]) < self.began for s in self.files.values())

    def has_unsafe_stamps(self, root: Path) -> bool:
        """Return whether a file or folder is on a file system whose ctimes prove nothing, or is missing by now."""
        unsafe = devices_without_ctimes()
        paths = chain(self.files, self.folders, self.python) if unsafe else ()
        try:
            return any(os.stat(os.path.join(root, path)).st_dev in unsafe for path in paths)
        except OSError:
            return True

    def merge_fresh(self, stale: StaleTargets) -> Seen:
        """Return this build's inputs and outputs, merged with the previous record's for targets that are not stale."""
        before, around = stale.record, stale.record.surroundings
        left_alone = {path for target in stale.fresh for path in target.outputs}
        known, laid_out = before.files, before.outputs
        stamps = zip(known.paths, zip(known.sizes, known.times, known.inodes, strict=True), strict=True)
        files: dict[str, Stamp | None] = {path: stamp for path, stamp in stamps if path not in stale.changed}
        columns = (laid_out.sizes, laid_out.times, laid_out.inodes, laid_out.modes)
        outputs = zip(laid_out.paths, zip(*columns, strict=True), strict=True)
        return Seen(
            files | self.files,
            {path: (ctime, inode, names) for path, ctime, inode, names in around.folders} | self.folders,
            self.present.union(around.present),
            self.absent.union(around.absent),
            {path: (ctime, inode, names) for path, ctime, inode, names in around.imports} | self.python,
            {path: stamp for path, stamp in outputs if not left_alone.isdisjoint(above(path))} | self.outputs,
            self.began,
            self.started,
        )


class Snapshot:
    """The path of the record of equal requests, in the workspace's output tree."""

    def __init__(self, output: Path, path: Path) -> None:
        self._output = output
        self.path = path

    @classmethod
    def of(cls, workspace: Workspace, identity: Sequence[object]) -> Snapshot:
        """Return the path for requests with an identity, which consists of JSON values."""
        python = [__version__, sys.version, sys.prefix, sys.path]
        text = json.dumps([*python, str(workspace.config.cache_dir), *identity])
        output = workspace.root / OUTPUT_FOLDER
        name = hashlib.sha256(text.encode()).hexdigest()[:32]
        return cls(output, output / ".modelbuild" / "snapshots" / name)

    def save(
        self,
        seen: Seen,
        targets: Sequence[BuiltTarget],
        actions: int,
        reads: TargetReads,
        stale: StaleTargets | None = None,
    ) -> None:
        """Save a build's record. Not saved if a file changed within the clock's granularity, if a file system has no
        ctimes, or if the output tree is read-only or being removed; an older record is only valid if nothing changed
        since. With `stale`, only these targets were built, and the previous record describes all other targets."""
        if not seen.settled():
            self.forget()
            return
        reads.contents = read_contents(str(self._output.parent), seen.files, reads.contents)
        if stale is not None:
            seen = seen.merge_fresh(stale)
            reads = merge_reads(stale.reads, reads, stale.labels)
        if seen.has_unsafe_stamps(self._output.parent):
            self.forget()
            return
        record = Record(
            files=_stamps({path: stamp for path, stamp in seen.files.items() if stamp is not None}, 3),
            outputs=_stamps(seen.outputs, 4),
            surroundings=Surroundings(
                imports=_listed(seen.python, seen.began),
                folders=_listed(seen.folders, seen.began),
                present=sorted(seen.present - seen.files.keys()),
                absent=sorted(seen.absent),
            ),
            targets=[(t.label, t.config, t.outputs, t.toolchain) for t in targets],
            actions=actions,
            token=_token(),
        )
        with suppress(OSError):
            make_folder(self._output, self.path.parent)
            write_reads(self.path, reads, record.token)
            write_record(str(self.path), record)

    def find_stale(self, root: Path) -> StaleTargets | None:
        """Return the stale targets since the last build (see stale_targets.find_stale)."""
        return find_stale(self.path, str(root))

    def forget_all(self) -> None:
        """Delete the records of all requests."""
        with suppress(OSError):
            for path in self.path.parent.iterdir():
                path.unlink()

    def forget(self) -> None:
        """Delete the record."""
        with suppress(OSError):
            self.path.unlink()


def _token() -> int:
    """Return a number that no other record has."""
    return int.from_bytes(os.urandom(8)) >> 1


def _stamps(known: Mapping[str, tuple[int, ...]], columns: int) -> Stamps:
    return Stamps(list(known), *([stamp[column] for stamp in known.values()] for column in range(columns)))


def _listed(folders: Mapping[str, tuple[int, int, str]], began: int) -> list[Listed]:
    """Return rows of folders; a folder that changed just before it was listed is compared by its names."""
    return [(path, settled(ctime, began), inode, names) for path, (ctime, inode, names) in folders.items()]
