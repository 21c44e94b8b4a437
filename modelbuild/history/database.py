"""Open the history, a database next to the cache's index. No error of the history fails a build or is printed."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modelbuild.errors import EnvironmentProblem
from modelbuild.store.database import Database
from modelbuild.store.problems import Warn
from modelbuild.store.schemas import HISTORY

if TYPE_CHECKING:
    import sqlite3


def open_history(directory: Path, warn: Warn = lambda message: None) -> Database:
    """Return the history in a cache's folder. Reading makes no file."""
    return Database(directory, HISTORY, warn)


def read_history(directory: Path, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Return rows of the history in a cache's folder; no rows if it cannot be read."""
    with closing(open_history(directory)) as database:
        return database.read(sql, values) or []


def write_history(directory: Path, work: Callable[[sqlite3.Connection], object]) -> None:
    """Call `work` in a transaction of the history in a cache's folder. Does nothing if it cannot be written."""
    with closing(open_history(directory)) as database, suppress(EnvironmentProblem):
        database.transaction(work)


def pack(text: str) -> bytes:
    return zlib.compress(text.encode())


def unpack(data: Any) -> dict[str, Any]:
    """Unpack an object. Raises ValueError for anything but packed JSON of an object."""
    try:
        return read_object(zlib.decompress(data))
    except (TypeError, zlib.error) as error:
        raise ValueError(str(error)) from None


def read_object(text: Any) -> dict[str, Any]:
    """Parse an object. Raises ValueError for anything but JSON of an object."""
    try:
        found = json.loads(text)
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if not isinstance(found, dict):
        raise ValueError(f"{type(found).__name__}; expected an object")
    return found
