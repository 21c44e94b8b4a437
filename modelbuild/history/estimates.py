"""Estimated durations of actions and targets, from earlier runs."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from math import inf
from pathlib import Path
from statistics import median

from modelbuild.history.database import read_history
from modelbuild.ids import ActionId

_RUNS = 5  # the newest runs
_TYPICAL = 1000
_COLUMNS = "CAST(subject AS TEXT), CAST(value AS REAL)"


def action_estimates(directory: Path, ids: Iterable[str] | None = None) -> dict[str, float]:
    """Return seconds by action id, of these actions or of all: the median of an action's last runs, in any workspace
    that uses the cache."""
    among = "" if ids is None else " AND subject IN (SELECT value FROM json_each(?))"
    newest = "row_number() OVER (PARTITION BY subject ORDER BY at DESC) AS place"
    rows = f"SELECT subject, value, {newest} FROM measures WHERE name = 'seconds'{among}"
    values = [] if ids is None else [json.dumps(list(ids))]
    runs: dict[str, list[float]] = defaultdict(list)
    for subject, value in read_history(directory, f"SELECT {_COLUMNS} FROM ({rows}) WHERE place <= {_RUNS}", values):
        if 0 <= value < inf:  # not of a damaged file
            runs[subject].append(value)
    return {subject: median(found) for subject, found in runs.items()}


def typical_seconds(directory: Path) -> dict[str, float]:
    """Return seconds by kind of action: the median of the newest runs."""
    sql = f"SELECT {_COLUMNS} FROM measures WHERE name = 'seconds' ORDER BY at DESC LIMIT {_TYPICAL}"
    kinds: dict[str, list[float]] = defaultdict(list)
    for subject, value in read_history(directory, sql):
        if 0 <= value < inf:
            kinds[ActionId(subject).kind].append(value)
    return {kind: median(found) for kind, found in kinds.items()}


def expected_seconds(directory: Path, ids: Iterable[str]) -> dict[str, float]:
    """Return seconds of these actions: of an action that never ran, those that are typical of its kind, or one second
    if there are none."""
    wanted = set(ids)
    found = action_estimates(directory, wanted)
    typical = typical_seconds(directory) if found.keys() != wanted else {}
    return {name: found.get(name, typical.get(ActionId(name).kind, 1.0)) for name in wanted}


def target_estimates(directory: Path, labels: Iterable[str]) -> dict[str, float]:
    """Return seconds by label, for targets that ran before: the sum of a target's own actions. An action that ran for
    several devices counts once."""
    wanted = set(labels)
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for text, seconds in action_estimates(directory).items():
        action = ActionId(text)
        if action.label in wanted:
            known = found[action.label]
            known[action.name] = max(seconds, known.get(action.name, 0.0))
    return {label: sum(actions.values()) for label, actions in found.items()}
