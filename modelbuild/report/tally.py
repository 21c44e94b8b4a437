"""What is known of a build so far, gathered from its events."""

from __future__ import annotations

from dataclasses import dataclass, field

from modelbuild.report.events import (
    ActionFinished,
    BuildAborted,
    BuildFinished,
    BuildStarted,
    Event,
    GraphGrew,
    TargetBuilt,
    TargetFailed,
    TestFinished,
)


@dataclass(slots=True)
class Tally:
    """Counts of actions by how they ended, and targets in the order in which they ended. Not thread-safe."""

    total: int = 0
    ran: int = 0
    cached: int = 0
    failed: int = 0
    built: list[TargetBuilt] = field(default_factory=list)
    unbuilt: list[TargetFailed] = field(default_factory=list)
    tests: list[TestFinished] = field(default_factory=list)
    shown: int = 0  # of `built`, those that an end before this one has shown
    finished: BuildFinished | None = None
    aborted: BuildAborted | None = None

    @property
    def done(self) -> int:
        return self.ran + self.cached + self.failed

    @property
    def ok(self) -> bool:
        failed = self.failed or self.unbuilt or any(test.status == "failed" for test in self.tests)
        return self.finished is not None and not failed

    def add(self, event: Event) -> None:
        match event:
            case BuildStarted(total=total) | GraphGrew(total=total):
                self.total = max(total, self.total)
            case ActionFinished(status=status):
                self.ran += status == "ran"
                self.cached += status == "cached"
                self.failed += status == "failed"
                self.total = max(self.total, self.done)
            case TargetBuilt():
                self.built.append(event)
            case TestFinished():
                self.tests.append(event)
            case TargetFailed():
                self.unbuilt.append(event)
            case BuildFinished():
                self.finished = event
            case BuildAborted():
                self.aborted = event
