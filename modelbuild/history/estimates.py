"""Estimated durations of actions and targets, from earlier runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from math import inf
from pathlib import Path
from statistics import median

from modelbuild.history.database import open_history, read_history
from modelbuild.ids import ActionId

_RUNS = 5  # the newest runs
_COLUMNS = "CAST(subject AS TEXT), CAST(value AS REAL)"
_AT_ONCE = 500  # ids in one SQLite query


def action_estimates(directory: Path) -> dict[str, float]:
    """Return seconds by action id: the median of its last runs, in any workspace that uses the cache."""
    runs: dict[str, list[float]] = defaultdict(list)
    sql = f"SELECT {_COLUMNS} FROM measures WHERE name = 'seconds' ORDER BY at DESC"
    for subject, value in read_history(directory, sql):
        if len(runs[subject]) < _RUNS:
            runs[subject].append(value)
    return _usual(runs)


def estimates_of(directory: Path, ids: Iterable[str]) -> dict[str, float]:
    """Return seconds of these actions, if they ran before: as action_estimates() does, without reading other
    actions."""
    runs: dict[str, list[float]] = defaultdict(list)
    wanted = list(ids)
    newest = "row_number() OVER (PARTITION BY subject ORDER BY at DESC) AS place"
    rows = f"SELECT subject, value, {newest} FROM measures WHERE name = 'seconds' AND subject IN"
    with closing(open_history(directory)) as database:
        for start in range(0, len(wanted), _AT_ONCE):
            some = wanted[start : start + _AT_ONCE]
            sql = f"SELECT {_COLUMNS} FROM ({rows} ({','.join('?' * len(some))})) WHERE place <= {_RUNS}"
            for subject, value in database.read(sql, some) or ():
                runs[subject].append(value)
    return _usual(runs)


def _usual(runs: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return the median of each, ignoring impossible values of a damaged file."""
    known = {subject: [each for each in values if 0 <= each < inf] for subject, values in runs.items()}
    return {subject: median(values) for subject, values in known.items() if values}


def expected_seconds(directory: Path, ids: Iterable[str]) -> dict[str, float]:
    """Return seconds of these actions: `estimates_of`, or for an action that never ran the median of other actions with
    its mnemonic, or one second if there are none."""
    wanted = set(ids)
    found = estimates_of(directory, wanted)
    kinds: dict[str, list[float]] = defaultdict(list)
    for name, seconds in found.items():
        kinds[ActionId(name).kind].append(seconds)
    typical = {kind: median(values) for kind, values in kinds.items()}
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
