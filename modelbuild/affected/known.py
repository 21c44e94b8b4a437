"""What a change of contents touches, told from what an earlier question found out: which files each target stands on.

That is kept in the cache's folder, a checksum and an SQLite database for each state of all that decided it, and looked
at only after all of that was found to be the same: by content, so that another checkout of the same files can use it.
Of files that git knows, the base revision's object ids tell the content.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from binascii import crc32
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from modelbuild import __version__
from modelbuild.affected.git import Change
from modelbuild.affected.unchanged import REGULAR, changed_engine, engine_folders
from modelbuild.building.imports import import_path, names_in
from modelbuild.building.record import read_regular, write_whole
from modelbuild.errors import ModelbuildError
from modelbuild.labels import Label
from modelbuild.loading.package import PACKAGE_FILE
from modelbuild.loading.patterns import MANUAL, expand_patterns
from modelbuild.loading.tree import list_folder
from modelbuild.store.files import make_folder
from modelbuild.workspace import WORKSPACE_FILE, Workspace

if TYPE_CHECKING:
    import sqlite3

FORMAT = 2
_SUM = 4  # bytes of the checksum that a file begins with

# What comes of rows that are not as they were written.
_DAMAGED = (AttributeError, LookupError, RecursionError, TypeError, ValueError)

# How many states are kept: those used last.
_MOST = 8

# The node of all files that git cannot vouch for, which always count as changed.
ALWAYS = 0

# An edge runs from what is read to what reads it. A target is touched when both its nodes are reached: `named` by what
# its attributes name, `made` by what its actions read.
TABLES = (
    "CREATE TABLE facts (text TEXT)",
    "CREATE TABLE files (path TEXT PRIMARY KEY, id INTEGER) WITHOUT ROWID",
    "CREATE TABLE edges (src INTEGER, dst INTEGER, PRIMARY KEY (src, dst)) WITHOUT ROWID",
    "CREATE TABLE targets (named INTEGER PRIMARY KEY, made INTEGER, label TEXT UNIQUE, rule TEXT, manual INTEGER)",
)
_REACHED = (
    "WITH RECURSIVE reached (id) AS (SELECT value FROM json_each(?) UNION"
    " SELECT dst FROM edges JOIN reached ON src = reached.id)"
    " SELECT label, rule, manual, made IN reached FROM reached JOIN targets ON named = reached.id"
)

_KNOWN = "SELECT 1 FROM targets WHERE label = ?"


@dataclass(frozen=True, slots=True)
class Facts:
    """What else has to be as it was. Paths are relative to the workspace's root.

    folders  a digest of the names in each folder that was listed
    absent   files whose absence was relied on
    graph    object ids of the files that decided the graph: what was loaded, and the source of the workspace's rules
    links    the paths that git does not know as regular files, and where each leads: into the repository, or ''
    """

    folders: Mapping[str, str]
    absent: Sequence[str]
    graph: Mapping[str, str]
    links: Mapping[str, str]
    packages: Sequence[str]


class Known:
    """What is known of a workspace as it is at a revision, but for contents, for targets built for some devices."""

    def __init__(self, workspace: Workspace, change: Change, devices: Sequence[Label]) -> None:
        self._workspace = workspace
        self._change = change
        self._devices = devices
        self.root = os.path.realpath(workspace.root)

    @cached_property
    def path(self) -> Path:
        """Where it is kept, by what is known before it is read."""
        identity = [FORMAT, __version__, sys.version, [str(device) for device in self._devices]]
        digest = hashlib.sha256(json.dumps(identity).encode())
        for place in import_path():
            digest.update(f"{names_in(place)}\n".encode())
        for name, folder in engine_folders(self._workspace).items():
            for file in python_files(str(folder)):
                digest.update(f"{name} {file}\n".encode())
                with open(f"{folder}/{file}", "rb") as opened:
                    digest.update(hashlib.sha256(opened.read()).digest())
        digest.update("\0".join(self._names()).encode(errors="surrogateescape"))
        return self._workspace.config.cache_dir / "affected" / f"{digest.hexdigest()[:32]}.db"

    def _names(self) -> Iterator[str]:
        """What git has in the workspace, by name; by content as well what decides which targets there are, and what git
        makes of contents when it checks them out."""
        prefix = self._change.prefix
        for path, mode in self._change.files.items():
            if path.startswith(prefix):
                yield path[len(prefix) :]
                if mode not in REGULAR or path.endswith((PACKAGE_FILE, WORKSPACE_FILE)):
                    yield f"{mode} {self._change.blobs[path]}"
            if path.endswith(".gitattributes"):
                yield self._change.blobs[path]

    def touched(self, patterns: Sequence[str], current: str) -> list[tuple[str, str]] | None:
        """The label and rule of each target touched; None where that is not known."""
        import sqlite3

        if changed_engine(self._workspace, self._change):
            return None
        whole = read_regular(str(self.path))
        data = whole[_SUM:]
        if whole[:_SUM] != crc32(data).to_bytes(_SUM) or not data:
            return None
        try:
            connection = sqlite3.connect(":memory:")
            try:
                connection.deserialize(data)
                return self._touched(connection, patterns, current)
            finally:
                connection.close()
        except (sqlite3.Error, ModelbuildError, OSError, *_DAMAGED):
            return None

    def _touched(
        self, connection: sqlite3.Connection, patterns: Sequence[str], current: str
    ) -> list[tuple[str, str]] | None:
        ((text,),) = connection.execute("SELECT text FROM facts")
        facts = Facts(**json.loads(text))
        if not self._hold(facts):
            return None
        changed = self._change.changed_from_here()
        ids = [row for path in changed for row in connection.execute("SELECT id FROM files WHERE path = ?", (path,))]
        rows = connection.execute(_REACHED, (json.dumps([ALWAYS, *(number for (number,) in ids)]),)).fetchall()
        standing = {str(device) for device in (*self._devices, self._workspace.config.default_device) if device}
        if any(label in standing for label, *_ in rows):
            return None
        touched = {label: (rule, manual) for label, rule, manual, made in rows if made}
        with suppress(OSError):
            os.utime(self.path)
        packages = _Packages(connection, facts.packages, touched)
        found = expand_patterns(packages, patterns, current)  # type: ignore[arg-type]
        return [(label, touched[label][0]) for label in (str(target.label) for target in found) if label in touched]

    def _hold(self, facts: Facts) -> bool:
        change, root = self._change, self.root
        return (
            all(change.blobs.get(change.named(path)) == blob for path, blob in facts.graph.items())
            and not any(change.named(path) in change.changed for path in facts.graph)
            and self.rule_sources() <= facts.graph.keys() | facts.links.keys()
            and all(os.path.isfile(f"{root}/{p}") and self.leads(p) == real for p, real in facts.links.items())
            and all(self.regular(real) for real in facts.links.values() if real.startswith("../"))
            and not any(os.path.isfile(f"{root}/{path}") for path in facts.absent)
            and all(list_folder(root, folder).stamp().names == names for folder, names in facts.folders.items())
        )

    def rule_sources(self) -> set[str]:
        """The source files of the workspace's own rule packages."""
        folders = [name.removeprefix("//") for name in self._workspace.config.rules if name.startswith("//")]
        return {f"{folder}/{file}" for folder in folders for file in python_files(f"{self.root}/{folder}")}

    def regular(self, path: str) -> bool:
        """Whether git knows a path as that of a regular file."""
        return self._change.files.get(self._change.named(path)) in REGULAR

    def tracked(self, path: str) -> bool:
        return self._change.named(path) in self._change.files

    def blob(self, path: str) -> str:
        return self._change.blobs[self._change.named(path)]

    def leads(self, path: str) -> str:
        """Where a path leads, relative to the root; '' outside of the repository."""
        return self._change.leads(self.root, path)

    def save(
        self,
        facts: Facts,
        files: Mapping[str, int],
        edges: Iterable[tuple[int, int]],
        targets: Iterable[tuple[int, int, str, str, bool]],
    ) -> None:
        """Keep what was found out, in place of what was used least recently. A cache that cannot be written to keeps
        nothing."""
        import sqlite3

        with suppress(OSError, sqlite3.Error):
            connection = sqlite3.connect(":memory:")
            with connection:
                for table in TABLES:
                    connection.execute(table)
                connection.execute("INSERT INTO facts VALUES (?)", (json.dumps(_as_dict(facts)),))
                connection.executemany("INSERT INTO files VALUES (?, ?)", files.items())
                connection.executemany("INSERT INTO edges VALUES (?, ?)", sorted(edges))
                connection.executemany("INSERT INTO targets VALUES (?, ?, ?, ?, ?)", targets)
            data = connection.serialize()
            connection.close()
            make_folder(self._workspace.config.cache_dir, self.path.parent)
            write_whole(str(self.path), crc32(data).to_bytes(_SUM) + data)
            kept = sorted(self.path.parent.glob("*.db"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
            for path in kept[_MOST:]:
                path.unlink(missing_ok=True)


def _as_dict(facts: Facts) -> dict[str, Any]:
    return {name: getattr(facts, name) for name in Facts.__slots__}


class _Packages:
    """What expand_patterns() asks a Loader for. A package lists its touched targets alone."""

    def __init__(
        self, connection: sqlite3.Connection, packages: Sequence[str], touched: Mapping[str, tuple[str, int]]
    ) -> None:
        self._connection = connection
        self._targets: dict[str, dict[str, SimpleNamespace]] = {package: {} for package in packages}
        for label, (_, manual) in touched.items():
            target = SimpleNamespace(label=Label.parse(label), tags=(MANUAL,) if manual else ())
            self._targets[target.label.package][target.label.name] = target

    def target(self, label: Label) -> SimpleNamespace:
        known = self._targets[label.package].get(label.name)
        if (
            known is None
            and not self._connection.execute("SELECT 1 FROM targets WHERE label = ?", (str(label),)).fetchall()
        ):
            raise KeyError(label)
        return known or SimpleNamespace(label=label, tags=())

    def package(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(targets=self._targets[name])

    def packages_below(self, name: str) -> list[str]:
        return sorted(p for p in self._targets if not name or p == name or p.startswith(f"{name}/"))


def python_files(folder: str) -> list[str]:
    """The Python files below a folder, relative to it, sorted."""
    found = [f"{below}/{name}" for below, _, names in os.walk(folder) for name in names if name.endswith(".py")]
    return sorted(path[len(folder) + 1 :] for path in found)
