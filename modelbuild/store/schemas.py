"""The SQLite databases of a cache's folder: their tables and the names of their files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables of a database in files NAME-vVERSION.NUMBER.db, where only the highest NUMBER is used.

    The version is part of the name, so versions of modelbuild with other tables share a cache without sharing a file.
    contents  noun for the rows, for warnings
    """

    name: str
    version: int
    contents: str
    tables: tuple[str, ...]

    def path(self, directory: Path, number: int) -> Path:
        return directory / f"{self.name}-v{self.version}.{number}.db"

    def newest(self, directory: Path) -> tuple[Path, int]:
        """Return the path and the number of the database with the highest number, whether or not it exists."""
        name = re.compile(rf"{self.name}-v{self.version}\.([0-9]+)\.db\Z")
        try:
            numbers = [int(found[1]) for found in map(name.match, os.listdir(directory)) if found]
        except OSError:
            numbers = []
        number = max(numbers, default=0)
        return self.path(directory, number), number

    def obsolete(self, directory: Path) -> Iterable[Path]:
        """Yield the files of broken databases, and of databases of other versions."""
        current = self.newest(directory)[0].name
        for path in directory.glob(f"{self.name}-v*"):
            if not path.name.startswith(current):
                yield path


INDEX = Schema(
    "index",
    2,
    "results",
    (
        "CREATE TABLE IF NOT EXISTS actions (key TEXT PRIMARY KEY, result TEXT NOT NULL, checksum TEXT NOT NULL,"
        " material BLOB NOT NULL, created INTEGER NOT NULL, last_used INTEGER NOT NULL)",
        "CREATE TABLE IF NOT EXISTS files (path BLOB PRIMARY KEY, stamp TEXT NOT NULL, recorded INTEGER NOT NULL,"
        " hash TEXT NOT NULL, checksum INTEGER NOT NULL) WITHOUT ROWID",
        "CREATE TABLE IF NOT EXISTS totals (name TEXT PRIMARY KEY, value INTEGER NOT NULL)",
    ),
)

HISTORY = Schema(
    "history",
    4,
    "records of builds",
    (
        "CREATE TABLE IF NOT EXISTS builds (build INTEGER PRIMARY KEY, workspace TEXT NOT NULL, at REAL NOT NULL,"
        " seconds REAL NOT NULL, ok INTEGER NOT NULL)",
        "CREATE TABLE IF NOT EXISTS parts (hash TEXT PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID",
        "CREATE TABLE IF NOT EXISTS actions (workspace TEXT NOT NULL, id TEXT NOT NULL, owner TEXT NOT NULL,"
        " first INTEGER NOT NULL, last INTEGER NOT NULL, key TEXT NOT NULL, status TEXT NOT NULL,"
        " seconds REAL NOT NULL, parts TEXT NOT NULL, code TEXT NOT NULL, place TEXT NOT NULL,"
        " PRIMARY KEY (workspace, id, first)) WITHOUT ROWID",
        "CREATE TABLE IF NOT EXISTS targets (workspace TEXT NOT NULL, node TEXT NOT NULL, first INTEGER NOT NULL,"
        " last INTEGER NOT NULL, parts TEXT NOT NULL, PRIMARY KEY (workspace, node, first)) WITHOUT ROWID",
        "CREATE TABLE IF NOT EXISTS measures (workspace TEXT NOT NULL, subject TEXT NOT NULL, name TEXT NOT NULL,"
        " at REAL NOT NULL, value REAL NOT NULL, key TEXT NOT NULL,"
        " PRIMARY KEY (subject, name, at, workspace)) WITHOUT ROWID",
        "CREATE TABLE IF NOT EXISTS revisions (workspace TEXT NOT NULL, revision TEXT NOT NULL, subject TEXT NOT NULL,"
        " name TEXT NOT NULL, value REAL NOT NULL, at REAL NOT NULL,"
        " PRIMARY KEY (workspace, revision, subject, name)) WITHOUT ROWID",
        "CREATE TABLE IF NOT EXISTS device_runs (workspace TEXT NOT NULL, device TEXT NOT NULL, subject TEXT NOT NULL,"
        " name TEXT NOT NULL, at REAL NOT NULL, value REAL NOT NULL, revision TEXT NOT NULL, identity TEXT NOT NULL,"
        " PRIMARY KEY (workspace, device, subject, name, at)) WITHOUT ROWID",
    ),
)

DATABASES = (INDEX, HISTORY)
