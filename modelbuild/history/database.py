"""The history's SQLite file, beside the cache. An aid, never a condition: what cannot be read is empty, what cannot be
written is left out."""

from __future__ import annotations

import json
import os
import sqlite3
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from modelbuild.store.database import check_kind, files_of
from modelbuild.store.files import remove

# Part of the file's name: a version with other tables has another file, and takes over what the one before it wrote.
SCHEMA = 3
_PATIENCE = 10.0  # seconds to wait for another process's transaction

_TABLES = """
CREATE TABLE IF NOT EXISTS builds (
    build INTEGER PRIMARY KEY, workspace TEXT NOT NULL, at REAL NOT NULL, seconds REAL NOT NULL, ok INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS parts (hash TEXT PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS actions (
    workspace TEXT NOT NULL, id TEXT NOT NULL, owner TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
    key TEXT NOT NULL, status TEXT NOT NULL, seconds REAL NOT NULL, parts TEXT NOT NULL, code TEXT NOT NULL,
    place TEXT NOT NULL,
    PRIMARY KEY (workspace, id, first)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS targets (
    workspace TEXT NOT NULL, node TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, parts TEXT NOT NULL,
    PRIMARY KEY (workspace, node, first)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS measures (
    workspace TEXT NOT NULL, subject TEXT NOT NULL, name TEXT NOT NULL, at REAL NOT NULL, value REAL NOT NULL,
    key TEXT NOT NULL,
    PRIMARY KEY (subject, name, at, workspace)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS revisions (
    workspace TEXT NOT NULL, revision TEXT NOT NULL, subject TEXT NOT NULL, name TEXT NOT NULL, value REAL NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (workspace, revision, subject, name)) WITHOUT ROWID;
"""
# What version 2 measured is of no workspace that is known, and so counts for all: '' stands for that.
_TAKE_OVER = (
    *(f"INSERT OR IGNORE INTO {name} SELECT * FROM older.{name}" for name in ("builds", "parts", "actions", "targets")),
    *(f"INSERT OR IGNORE INTO {name} SELECT '', * FROM older.{name}" for name in ("measures", "revisions")),
)
# Primary result codes of a file that is none of ours: no such table, damaged, no database.
_BROKEN = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class HistoryFile:
    """A connection that is opened when first needed. For one thread.

    problem  why the last read() gave nothing; '' when there was nothing
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / f"history-v{SCHEMA}.db"
        self._older = directory / f"history-v{SCHEMA - 1}.db"
        self.problem = ""
        self._connection: sqlite3.Connection | None = None

    def read(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Rows; none when there is no history, or it cannot be read."""
        self.problem = ""
        if self._connection is None and not self.path.exists() and not self._can_take_over():
            return []
        try:
            return self._open().execute(sql, values).fetchall()
        except (sqlite3.Error, OSError) as error:
            self.problem = f"{self.path}: {error}"
            return []

    def begin(self) -> bool:
        """Begin to write, to a new file where this one is broken. False when that is not possible."""
        if not os.access(self.path.parent, os.W_OK):
            return False
        for _ in range(2):
            try:
                self._open().execute("BEGIN IMMEDIATE")
                return True
            except sqlite3.Error as error:
                if not self.drop_broken(error):
                    return False
            except OSError:
                return False
        return False

    def drop_broken(self, error: sqlite3.Error) -> bool:
        """Remove the file if an error says that it is no database, or not a sound one. Returns whether it is gone."""
        if isinstance(error, sqlite3.OperationalError):  # busy, or the disk is full
            return False
        self.close()
        with suppress(OSError):
            for path in files_of(self.path):
                remove(path)
            return True
        return False

    def write(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Inside begin() and commit()."""
        self._open().executemany(sql, rows)

    def commit(self) -> None:
        self._open().execute("COMMIT")

    def close(self) -> None:
        """What was not committed is dropped."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _can_take_over(self) -> bool:
        return self._older.exists() and os.access(self.path.parent, os.W_OK)

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            check_kind(self.path, writable=os.access(self.path.parent, os.W_OK))
            connection = sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None)
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.executescript(_TABLES)
            if _version(connection) == 0:
                _take_over(connection, self._older)
            self._connection = connection
        return self._connection


def _version(connection: sqlite3.Connection) -> int:
    """0 until the file of the version before was looked at."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _take_over(connection: sqlite3.Connection, older: Path) -> None:
    """Once, all or nothing. That file stays, for a modelbuild of its version that uses the same cache. Raises
    sqlite3.Error where it has to be tried again, such as while that file is being written."""
    if older.exists():
        try:
            connection.execute("ATTACH DATABASE ? AS older", (str(older),))
            connection.execute("BEGIN IMMEDIATE")
            for sql in _TAKE_OVER if _version(connection) == 0 else ():
                connection.execute(sql)
            connection.execute("PRAGMA user_version = 1")
            connection.execute("COMMIT")
            connection.execute("DETACH DATABASE older")
        except sqlite3.DatabaseError as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if error.sqlite_errorcode & 0xFF not in _BROKEN:
                raise
    connection.execute("PRAGMA user_version = 1")


def pack(text: str) -> bytes:
    return zlib.compress(text.encode())


def unpack(data: Any) -> dict[str, Any]:
    """Return the object whose JSON was packed. Raises ValueError for anything else."""
    try:
        return read_object(zlib.decompress(data))
    except (TypeError, zlib.error) as error:
        raise ValueError(str(error)) from None


def read_object(text: Any) -> dict[str, Any]:
    """Return the object of some JSON. Raises ValueError for anything else."""
    try:
        found = json.loads(text)
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if not isinstance(found, dict):
        raise ValueError(f"{type(found).__name__} where an object was written")
    return found
