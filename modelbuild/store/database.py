"""An SQLite file shared by threads and processes: opened on first use, replaced by a new file if damaged."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from modelbuild.errors import EnvironmentProblem
from modelbuild.store.files import make_folder, open_up
from modelbuild.store.lock import exclusive
from modelbuild.store.ownership import claim
from modelbuild.store.problems import FULL, Warn, no_space
from modelbuild.store.schemas import Schema

if TYPE_CHECKING:
    import sqlite3

T = TypeVar("T")

# Seconds to wait for another process's transaction. Transactions take milliseconds, so a longer transaction hangs.
# After that, each further wait is short.
_PATIENCE = 10.0
_NO_PATIENCE_MS = 100

_inherited: list[sqlite3.Connection] = []


class Database:
    """An optional database: a read that fails returns None, a write that fails is skipped, and `warn` is called once. A
    broken file stays; the next file is begun, with one more warning. Only writing to a full disk raises an error,
    EnvironmentProblem."""

    def __init__(self, directory: Path, schema: Schema, warn: Warn) -> None:
        self.directory = directory
        self._schema = schema
        self._warn = warn
        self._warned = False
        self._started_new = False
        self._connection: sqlite3.Connection | None = None
        self._path = directory
        self._number = 0
        self._pid = os.getpid()
        self._lock = threading.RLock()

    def read(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]] | None:
        """Return the rows, or None when the database cannot be used. Makes no file: a missing database has no rows."""
        self._after_fork()
        if self._connection is None and not os.path.lexists(self._schema.newest(self.directory)[0]):
            return []
        try:
            return self._use(lambda connection: connection.execute(sql, values).fetchall())
        except EnvironmentProblem as error:
            self._warn_once(str(error))
            return None

    def write(self, *statements: tuple[str, Iterable[Sequence[Any]]]) -> bool:
        """Run each statement with each of its rows, all in one transaction. Returns whether that succeeded."""
        prepared = [(sql, list(rows)) for sql, rows in statements]

        def work(connection: sqlite3.Connection) -> bool:
            for sql, rows in prepared:
                connection.executemany(sql, rows)
            return True

        return self.transaction(work) or False

    def transaction(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """Return the result of `work`, whose reads and writes are one transaction; None if the transaction failed.
        `work` is called again with an empty database when this one turns out to be broken."""

        def all_or_nothing(connection: sqlite3.Connection) -> T:
            connection.execute("BEGIN IMMEDIATE")
            try:
                result = work(connection)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            return result

        return self._use(all_or_nothing)

    def close(self) -> None:
        if self._pid == os.getpid():
            with self._lock:
                self._drop_connection()

    def _use(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        import sqlite3

        self._after_fork()
        with self._lock:
            try:
                try:
                    return work(self._open())
                except (sqlite3.ProgrammingError, sqlite3.InterfaceError):
                    raise
                except sqlite3.Error as error:
                    if self._is_gone():
                        self._drop_connection()
                    elif self._is_broken(error):
                        self._start_new(error)
                    else:
                        raise
                    return work(self._open())
            except (sqlite3.ProgrammingError, sqlite3.InterfaceError):
                raise
            except (sqlite3.Error, OSError) as error:
                if _code(error) == sqlite3.SQLITE_FULL or getattr(error, "errno", None) in FULL:
                    raise no_space(self.directory) from error
                self._warn_once(
                    f"cannot use {self._path} ({error}): {self._schema.contents} are kept as far as they can be"
                )
                if _code(error) == sqlite3.SQLITE_BUSY and self._connection is not None:
                    self._connection.execute(f"PRAGMA busy_timeout={_NO_PATIENCE_MS}")
                return None

    def _is_gone(self) -> bool:
        """Return whether another process removed the open database."""
        return self._connection is not None and not self._path.exists()

    def _is_broken(self, error: sqlite3.Error) -> bool:
        """Return whether to start a new database."""
        return not self._started_new and _code(error) in _broken()

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._path, self._number = self._schema.newest(self.directory)
            _check_kind(self._path)
            self._connection = self._connect()
        return self._connection

    def _connect(self) -> sqlite3.Connection:
        import sqlite3

        make_folder(self.directory, self.directory)
        claim(self.directory)
        connection = sqlite3.connect(self._path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA synchronous=NORMAL")
            if _version(connection) != self._schema.version:
                with exclusive(self._lock_file, self.directory):
                    if _version(connection) not in (0, self._schema.version):
                        raise sqlite3.DatabaseError(f"schema {_version(connection)}, not {self._schema.version}")
                    connection.execute("PRAGMA journal_mode=WAL")
                    for table in self._schema.tables:
                        connection.execute(table)
                    connection.execute(f"PRAGMA user_version={self._schema.version}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _start_new(self, error: sqlite3.Error) -> None:
        """Create the next database, unless another process has done so. The damaged database stays in place: a database
        must not be moved or replaced while another process may have it open."""
        self._started_new = True
        self._drop_connection()
        with exclusive(self._lock_file, self.directory):
            if self._schema.newest(self.directory)[0] != self._path:
                return
            fresh = self._schema.path(self.directory, self._number + 1)
            fresh.touch()
        self._warn(f"{self._path} is broken ({error}): starting a new one, {fresh.name}")

    @property
    def _lock_file(self) -> Path:
        return self.directory / f"{self._schema.name}.lock"

    def _drop_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _after_fork(self) -> None:
        """Drop the parent's connection. A forked process must neither use nor close it: closing releases the parent's
        locks."""
        if self._pid != os.getpid():
            if self._connection is not None:
                _inherited.append(self._connection)
            self._connection, self._lock, self._pid = None, threading.RLock(), os.getpid()

    def _warn_once(self, message: str) -> None:
        if not self._warned:
            self._warned = True
            self._warn(message)


def _check_kind(path: Path) -> None:
    """Give ourselves permission for a database's files. Raises sqlite3.DatabaseError for a file that is not regular,
    because SQLite might wait for it, or follow it."""
    import sqlite3

    for name in (f"{path}{companion}" for companion in ("", "-wal", "-shm", "-journal")):
        with suppress(FileNotFoundError):  # another process removes these files when it closes the database
            if not stat.S_ISREG(os.lstat(name).st_mode):
                raise sqlite3.DatabaseError(f"{os.path.basename(name)} is not a regular file")
            open_up(name, stat.S_IRUSR | stat.S_IWUSR)


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _code(error: sqlite3.Error | OSError) -> int:
    """Return SQLite's primary result code; for an error without a code, the code of a corrupt file."""
    import sqlite3

    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
    return code & 0xFF


def _broken() -> tuple[int, ...]:
    """Return SQLite's codes for a broken file (SQLITE_ERROR: a table or column is missing; SQLITE_CONSTRAINT: rows
    contradict each other)."""
    import sqlite3

    return (
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_FORMAT,
        sqlite3.SQLITE_SCHEMA,
        sqlite3.SQLITE_MISMATCH,
        sqlite3.SQLITE_ERROR,
        sqlite3.SQLITE_CONSTRAINT,
    )
