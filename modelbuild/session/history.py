"""Record a build that did some work in the history: for `explain`, estimates and trends of sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from modelbuild.code.step_sources import StepCode
from modelbuild.errors import ExitCode
from modelbuild.execution.scheduling.scheduler import Scheduler
from modelbuild.history.action_facts import TargetFacts, gather
from modelbuild.history.write import BuildFacts, remember
from modelbuild.ids import TargetId
from modelbuild.session.result import Result
from modelbuild.store.stat import sizes_of
from modelbuild.workspace.workspace import Workspace


def record_history(
    workspace: Workspace,
    attributes: Mapping[str, TargetFacts],
    scheduler: Scheduler,
    code: StepCode,
    result: Result,
    seconds: float,
    measures: Mapping[tuple[str, str], float] | None = None,
) -> None:
    """Write to the history in the cache's folder. `attributes` are the attributes of targets that may have changed;
    `measures` are values that only some builds have: see BuildFacts."""
    known = {**dict(_measures(workspace, scheduler, result)), **(measures or {})}
    build = BuildFacts(seconds, result.code == ExitCode.OK, gather(scheduler, code), attributes, known)
    remember(workspace.config.cache_dir, workspace.root, build)


def _measures(workspace: Workspace, scheduler: Scheduler, result: Result) -> Iterator[tuple[tuple[str, str], float]]:
    for name, status in scheduler.report.statuses.items():
        if status == "ran":
            made = scheduler.report.results[name]
            yield (name, "seconds"), made.seconds
            yield (name, "max_rss"), made.max_rss
    for target in result.targets:
        if not target.outputs:  # such as a test, which has its own measures
            continue
        yield (TargetId.of(target.label, target.config), "bytes"), output_bytes(workspace, target.outputs)


def output_bytes(workspace: Workspace, outputs: Iterable[str]) -> int:
    """Return the size of files and folders, relative to the workspace; ignores files removed meanwhile."""
    return sum(size for path in outputs for size in sizes_of(workspace.root / path))
