"""The state of a build, collected from its events."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from modelbuild.events import (
    ActionFinished,
    BuildAborted,
    BuildFinished,
    BuildStarted,
    Event,
    GraphGrew,
    Planned,
    Status,
    TargetBuilt,
    TargetFailed,
    TargetSkipped,
    TestFinished,
)


@dataclass(slots=True)
class BuildProgress:
    """Actions and targets by status, in the order in which they ended. After a restart of the build, a new event for an
    action or target replaces the earlier event."""

    total: int = 0
    actions: dict[str, ActionFinished] = field(default_factory=dict)
    ends: Counter[Status] = field(default_factory=Counter)
    targets: dict[tuple[str, str], TargetBuilt | TargetFailed] = field(default_factory=dict)
    skipped: dict[str, TargetSkipped] = field(default_factory=dict)
    tests: list[TestFinished] = field(default_factory=list)
    shown: int = 0  # number of `built` targets that were already printed
    planned: Planned | None = None
    finished: BuildFinished | None = None
    aborted: BuildAborted | None = None

    @property
    def ran(self) -> int:
        return self.ends["ran"]

    @property
    def cached(self) -> int:
        return self.ends["cached"]

    @property
    def failed(self) -> int:
        return self.ends["failed"]

    @property
    def done(self) -> int:
        return len(self.actions)

    @property
    def built(self) -> list[TargetBuilt]:
        return [target for target in self.targets.values() if isinstance(target, TargetBuilt)]

    @property
    def unbuilt(self) -> list[TargetFailed]:
        return [target for target in self.targets.values() if isinstance(target, TargetFailed)]

    @property
    def ok(self) -> bool:
        failed = self.failed or self.unbuilt or self.skipped or any(test.status == "failed" for test in self.tests)
        return self.finished is not None and not failed

    @property
    def problems(self) -> list[str]:
        """Return the distinct problems for which targets were skipped."""
        return list(dict.fromkeys(event.problem for event in self.skipped.values()))

    def add(self, event: Event) -> None:
        match event:
            case BuildStarted(total=total) | GraphGrew(total=total):
                self.total = max(total, self.total)
            case ActionFinished(id=name, status=status):
                before = self.actions.pop(name, None)
                if before is not None:
                    self.ends[before.status] -= 1
                self.actions[name] = event
                self.ends[status] += 1
                self.total = max(self.total, self.done)
            case TargetBuilt() | TargetFailed():
                self.targets[event.label, event.config] = event
            case TargetSkipped():
                self.skipped[event.label] = event
            case TestFinished():
                self.tests.append(event)
            case Planned():
                self.planned = event
                self.total = event.actions
            case BuildFinished():
                self.finished = event
            case BuildAborted():
                self.aborted = event
