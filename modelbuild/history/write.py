"""Store a build in the history: the contents of each action's key, and the durations of actions."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from modelbuild.history.action_facts import ActionFacts, TargetFacts, place_json
from modelbuild.history.database import pack, write_history
from modelbuild.history.identity import identity, stored_path

if TYPE_CHECKING:
    import sqlite3

# Maximum number of rows with different keys of an action, and of measurements of one kind of one subject.
KEPT_KEYS = 5
KEPT_MEASURES = 200
_TIDY_EVERY = 20  # builds


@dataclass(frozen=True, slots=True)
class BuildFacts:
    """The record of one build.

    ok        whether the build succeeded
    actions   by id
    targets   the attributes of targets by id (see action_facts.attributes_of)
    measures  (id of a target or action, name) -> value, such as ("//models:detector (cpu)", "bytes")
    """

    seconds: float
    ok: bool
    actions: Mapping[str, ActionFacts]
    targets: Mapping[str, TargetFacts]
    measures: Mapping[tuple[str, str], float]


def remember(directory: Path, root: Path, build: BuildFacts) -> None:
    """Add a build of the workspace at `root` to the history in the cache's folder.

    An action with the same key as in its last build keeps its row, which contains the first and the last build with it.
    """
    if not build.actions:
        return
    workspace = stored_path(root)

    def work(history: sqlite3.Connection) -> None:
        row = (workspace, time.time(), build.seconds, build.ok)
        number = int(history.execute("INSERT INTO builds VALUES (NULL, ?, ?, ?, ?)", row).lastrowid or 0)
        _actions(history, workspace, number, build.actions)
        _targets(history, workspace, number, build.targets)
        _measures(history, identity(root), build)
        if number % _TIDY_EVERY == 0:
            _tidy(history)

    write_history(directory, work)


def _measures(history: sqlite3.Connection, workspace: str, build: BuildFacts) -> None:
    now = time.time()
    keys = {name: facts.key for name, facts in build.actions.items()}
    rows = [
        (workspace, subject, name, now, value, keys.get(subject, ""))
        for (subject, name), value in build.measures.items()
    ]
    history.executemany("INSERT OR REPLACE INTO measures VALUES (?, ?, ?, ?, ?, ?)", rows)


def _actions(history: sqlite3.Connection, workspace: str, build: int, facts: Mapping[str, ActionFacts]) -> None:
    sql = "SELECT first, key, status FROM actions WHERE workspace = ? AND id = ? ORDER BY first DESC LIMIT 1"
    new, same = [], []
    for name, each in facts.items():
        first, key, status = history.execute(sql, (workspace, name)).fetchone() or (0, "", "")
        # A failed run has its own row, which explains why the action ran again.
        place = json.dumps(place_json(each.place))
        if key == each.key and (status == "failed") == (each.status == "failed"):
            same.append((build, each.status, each.seconds, each.status, place, workspace, name, first))
            continue
        code = _keep(history, json.dumps(each.modules, sort_keys=True))
        parts = {"material": each.material, "makers": each.makers, "outputs": each.outputs, "mnemonic": each.mnemonic}
        packed = _keep(history, json.dumps(parts, sort_keys=True))
        ended = (each.key, each.status, each.seconds)
        new.append((workspace, name, each.owner, build, build, *ended, packed, code, place))
    history.executemany("INSERT INTO actions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", new)
    # A cached result keeps the place where it was made.
    sql = (
        "UPDATE actions SET last = ?, status = ?, seconds = ?, place = CASE WHEN ? = 'cached' THEN place ELSE ? END"
        " WHERE workspace = ? AND id = ? AND first = ?"
    )
    history.executemany(sql, same)


def _targets(history: sqlite3.Connection, workspace: str, build: int, targets: Mapping[str, TargetFacts]) -> None:
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
        # Failed runs do not displace the last run that succeeded: `explain` compares with it.
        kept = f" AND (status = 'failed' OR ({newer} AND newer.status != 'failed') > 0)" if table == "actions" else ""
        history.execute(f"DELETE FROM {table} WHERE ({newer}) >= ?{kept}", (KEPT_KEYS,))
    history.execute(
        "DELETE FROM measures WHERE (SELECT count(*) FROM measures AS newer WHERE newer.workspace = measures.workspace"
        " AND newer.subject = measures.subject AND newer.name = measures.name AND newer.at > measures.at) >= ?",
        (KEPT_MEASURES,),
    )
    kept = "SELECT parts FROM actions UNION SELECT code FROM actions UNION SELECT parts FROM targets"
    history.execute(f"DELETE FROM parts WHERE hash NOT IN ({kept})")
    history.execute("DELETE FROM builds WHERE build NOT IN (SELECT first FROM actions UNION SELECT last FROM actions)")
