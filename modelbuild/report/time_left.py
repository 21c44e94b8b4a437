"""Estimated remaining time of a build, from earlier durations of its actions."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from modelbuild.history.estimates import action_estimates, typical_seconds
from modelbuild.ids import ActionId


class TimeLeft:
    """The actions that have not ended. An action that never ran counts like other actions of its kind."""

    def __init__(self, history: Path) -> None:
        """`history` is the folder of the cache."""
        self._history = history
        self._waiting: dict[str, float | None] = {}
        self._seen: set[str] = set()
        self._typical: dict[str, float] | None = None

    def expect(self, ids: Iterable[str]) -> None:
        """Add actions of the build."""
        new = [name for name in dict.fromkeys(ids) if name not in self._seen]
        self._seen.update(new)
        found = action_estimates(self._history, new)
        if found.keys() != set(new) and self._typical is None:
            self._typical = typical_seconds(self._history)
        typical = self._typical or {}
        self._waiting |= {name: found.get(name, typical.get(ActionId(name).kind)) for name in new}

    def ended(self, name: str) -> None:
        """Remove an action."""
        self._seen.add(name)
        self._waiting.pop(name, None)

    def left(self, running: Iterable[tuple[str, float]], jobs: int) -> float | None:
        """Return seconds until all have ended, with `jobs` at once; None if a remaining action has no estimate.
        `running` are ids with their seconds so far."""
        if not self._waiting:
            return None
        rest = 0.0
        longest = 0.0
        elapsed = dict(running)
        for name, seconds in self._waiting.items():
            if seconds is None:
                return None
            still = max(0.0, seconds - elapsed.get(name, 0.0))
            rest += still
            longest = max(longest, still)
        return max(longest, rest / max(jobs, 1))
