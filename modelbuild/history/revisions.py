"""Measurements at commits, for a summary to compare a change with."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from modelbuild.errors import UsageError
from modelbuild.history.database import read_history, write_history
from modelbuild.history.identity import identity
from modelbuild.lines import shown
from modelbuild.user_files import write_file

if TYPE_CHECKING:
    import sqlite3

# (subject, name) -> value, such as ("//models:detector (cpu)", "bytes").
Values: TypeAlias = Mapping[tuple[str, str], float]

VERSION = 1
_KEPT = 500  # commits


def remember_revision(directory: Path, root: Path, revision: str, values: Values) -> None:
    """Store the measurements at a commit of the workspace at `root` in the history in the cache's folder."""
    if not values:
        return
    now = time.time()
    own = identity(root)
    rows = [(own, revision, subject, name, value, now) for (subject, name), value in values.items()]
    newest = "SELECT revision FROM revisions WHERE workspace = ? GROUP BY revision ORDER BY max(at) DESC LIMIT ?"
    old = f"DELETE FROM revisions WHERE workspace = ? AND revision NOT IN ({newest})"

    def work(connection: sqlite3.Connection) -> None:
        connection.executemany("INSERT OR REPLACE INTO revisions VALUES (?, ?, ?, ?, ?, ?)", rows)
        connection.execute(old, (own, own, _KEPT))

    write_history(directory, work)


def values_at(directory: Path, root: Path, ancestors: Sequence[str]) -> Values:
    """Return measurements of the workspace at `root`. Each value comes from the first commit in the list that has it,
    because a job measures only targets that its change affects."""
    order = {revision: place for place, revision in enumerate(ancestors)}
    sql = "SELECT revision, subject, name, CAST(value AS REAL) FROM revisions WHERE workspace = ?"
    rows = read_history(directory, sql, [identity(root)])
    known = sorted((row for row in rows if row[0] in order), key=lambda row: order[row[0]], reverse=True)
    return {(subject, name): value for _, subject, name, value in known}


def write_measures(path: Path, revision: str | None, values: Values) -> None:
    """Write a file of measures. Raises as write_file does."""
    rows = [{"subject": subject, "name": name, "value": value} for (subject, name), value in values.items()]
    write_file(path, json.dumps({"version": VERSION, "commit": revision, "measures": rows}, indent=1) + "\n")


def read_measures(path: Path) -> tuple[str | None, Values]:
    """Return the commit and the values of a file by write_measures. Raises UsageError for any other file."""
    try:
        data = json.loads(path.read_bytes())
        if data["version"] != VERSION:
            raise UsageError(f"{path}: measures of version {shown(str(data['version']))}; expected {VERSION}")
        values = {(str(row["subject"]), str(row["name"])): _finite(row["value"]) for row in data["measures"]}
        commit = data["commit"]
        return commit if commit is None else str(commit), values
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except (KeyError, TypeError, ValueError, RecursionError, OverflowError):
        raise UsageError(f"{path}: expected a file that 'modelbuild ci --measures' wrote") from None


def _finite(value: Any) -> float:
    found = float(value)
    if not math.isfinite(found):
        raise ValueError(f"{value} is not finite")
    return found
