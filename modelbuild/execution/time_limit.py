"""The time that an action may run."""

from __future__ import annotations

from dataclasses import dataclass

from modelbuild.durations import duration_text


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """A limit in seconds, and the flag or attribute that sets it. Time in queues does not count."""

    seconds: float
    origin: str

    @property
    def problem(self) -> str:
        """The reason for the failure of an action that ran longer."""
        return f"took longer than {duration_text(self.seconds)} ({self.origin})"
