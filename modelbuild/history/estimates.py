"""How long targets are likely to take, by what they took before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import median

from modelbuild.history.database import HistoryFile

_RUNS = 5  # the last ones


def action_estimates(directory: Path) -> dict[str, float]:
    """Seconds by action id: the median of its last runs, in any workspace that uses the cache."""
    file = HistoryFile(directory)
    runs: dict[str, list[float]] = defaultdict(list)
    for subject, value in file.read("SELECT subject, value FROM measures WHERE name = 'seconds' ORDER BY at DESC"):
        if len(runs[subject]) < _RUNS:
            runs[subject].append(value)
    file.close()
    return {subject: median(values) for subject, values in runs.items()}


def estimates_of(directory: Path, ids: Iterable[str]) -> dict[str, float]:
    """Seconds of these actions, as far as they ran before: as action_estimates, without reading of others."""
    file = HistoryFile(directory)
    sql = "SELECT value FROM measures WHERE subject = ? AND name = 'seconds' ORDER BY at DESC LIMIT ?"
    found = {name: [value for (value,) in file.read(sql, (name, _RUNS))] for name in ids}
    file.close()
    return {name: median(values) for name, values in found.items() if values}


def target_estimates(directory: Path, labels: Iterable[str]) -> dict[str, float]:
    """Seconds by label, of those that ran before: all of a target's own actions, one after the other. An action that
    ran for several devices counts once."""
    wanted = set(labels)
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for action, seconds in action_estimates(directory).items():
        owner, _, name = action.partition("#")
        label = owner.partition(" (")[0]
        if label in wanted:
            found[label][name] = max(seconds, found[label].get(name, 0.0))
    return {label: sum(actions.values()) for label, actions in found.items()}
