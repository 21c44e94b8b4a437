"""Store a build in the history: the contents of each action's key, and the durations of actions."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modelbuild.history.action_facts import Facts
from modelbuild.history.database import pack, write_history
from modelbuild.history.identity import identity, stored_path

if TYPE_CHECKING:
    import sqlite3

# Rows with different keys that are kept of an action, and measurements of one kind of one subject.
KEPT_KEYS = 5
KEPT_MEASURES = 200
_TIDY_EVERY = 20  # builds


def remember(
    directory: Path,
    workspace: Path,
    seconds: float,
    ok: bool,
    facts: Mapping[str, Facts],
    targets: Mapping[str, Mapping[str, Any]],
    measures: Mapping[tuple[str, str], float],
) -> None:
    """Add a build to the history in the cache's folder.

    An action with the same key as in its last build keeps its row, which contains the first and the last build with it.
    measures  (label or action id, name) -> value, such as ("//models:detector", "bytes")
    """
    if not facts:
        return

    def work(history: sqlite3.Connection) -> None:
        build = _write(history, stored_path(workspace), seconds, ok, facts, targets)
        _measures(history, identity(workspace), facts, measures)
        if build % _TIDY_EVERY == 0:
            _tidy(history)

    write_history(directory, work)


def _write(
    history: sqlite3.Connection,
    workspace: str,
    seconds: float,
    ok: bool,
    facts: Mapping[str, Facts],
    targets: Mapping[str, Mapping[str, Any]],
) -> int:
    """Insert the rows, and return the build's number."""
    row = (workspace, time.time(), seconds, ok)
    build = int(history.execute("INSERT INTO builds VALUES (NULL, ?, ?, ?, ?)", row).lastrowid or 0)
    _actions(history, workspace, build, facts)
    _targets(history, workspace, build, targets)
    return build


def _measures(
    history: sqlite3.Connection,
    workspace: str,
    facts: Mapping[str, Facts],
    measures: Mapping[tuple[str, str], float],
) -> None:
    now = time.time()
    history.executemany(
        "INSERT OR REPLACE INTO measures VALUES (?, ?, ?, ?, ?, ?)",
        [(workspace, s, n, now, v, facts[s].key if s in facts else "") for (s, n), v in measures.items()],
    )


def _actions(history: sqlite3.Connection, workspace: str, build: int, facts: Mapping[str, Facts]) -> None:
    sql = "SELECT first, key, status FROM actions WHERE workspace = ? AND id = ? ORDER BY first DESC LIMIT 1"
    new, same = [], []
    for name, each in facts.items():
        first, key, status = history.execute(sql, (workspace, name)).fetchone() or (0, "", "")
        # A run that failed is a row of its own: that it ran again has that reason.
        place = json.dumps(each.place)
        if key == each.key and (status == "failed") == (each.status == "failed"):
            same.append((build, each.status, each.seconds, place, workspace, name, first))
            continue
        code = _keep(history, json.dumps(each.modules, sort_keys=True))
        parts = {"material": each.material, "makers": each.makers, "outputs": each.outputs, "mnemonic": each.mnemonic}
        packed = _keep(history, json.dumps(parts, sort_keys=True))
        ended = (each.key, each.status, each.seconds)
        new.append((workspace, name, each.owner, build, build, *ended, packed, code, place))
    history.executemany("INSERT INTO actions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", new)
    sql = "UPDATE actions SET last = ?, status = ?, seconds = ?, place = ? WHERE workspace = ? AND id = ? AND first = ?"
    history.executemany(sql, same)


def _targets(history: sqlite3.Connection, workspace: str, build: int, targets: Mapping[str, Mapping[str, Any]]) -> None:
    sql = "SELECT first, parts FROM targets WHERE workspace = ? AND node = ? ORDER BY first DESC LIMIT 1"
    new, same = [], []
    for node, each in targets.items():
        parts = _keep(history, json.dumps(each, sort_keys=True))
        first, known = history.execute(sql, (workspace, node)).fetchone() or (0, "")
        if known == parts:
            same.append((build, workspace, node, first))
        else:
            new.append((workspace, node, build, build, parts))
    history.executemany("INSERT INTO targets VALUES (?, ?, ?, ?, ?)", new)
    history.executemany("UPDATE targets SET last = ? WHERE workspace = ? AND node = ? AND first = ?", same)


def _keep(history: sqlite3.Connection, text: str) -> str:
    digest = hashlib.sha256(text.encode()).hexdigest()
    history.execute("INSERT OR IGNORE INTO parts VALUES (?, ?)", (digest, pack(text)))
    return digest


def _tidy(history: sqlite3.Connection) -> None:
    for table, name in (("actions", "id"), ("targets", "node")):
        same = f"newer.workspace = {table}.workspace AND newer.{name} = {table}.{name}"
        newer = f"SELECT count(*) FROM {table} AS newer WHERE {same} AND newer.first > {table}.first"
        history.execute(f"DELETE FROM {table} WHERE ({newer}) >= ?", (KEPT_KEYS,))
    history.execute(
        "DELETE FROM measures WHERE (SELECT count(*) FROM measures AS newer WHERE newer.workspace = measures.workspace"
        " AND newer.subject = measures.subject AND newer.name = measures.name AND newer.at > measures.at) >= ?",
        (KEPT_MEASURES,),
    )
    kept = "SELECT parts FROM actions UNION SELECT code FROM actions UNION SELECT parts FROM targets"
    history.execute(f"DELETE FROM parts WHERE hash NOT IN ({kept})")
    history.execute("DELETE FROM builds WHERE build NOT IN (SELECT first FROM actions UNION SELECT last FROM actions)")
