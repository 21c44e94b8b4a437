"""Options of build commands for files that a CI job keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from modelbuild.cli.options import Command, gather, option
from modelbuild.workspace.flags import RECORDING_FLAGS

if TYPE_CHECKING:
    from modelbuild.cli.settings import Settings
    from modelbuild.events import Reporter
    from modelbuild.report.files.comparison import Comparison
    from modelbuild.workspace.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Base:
    """The values that a summary compares with: a title, and a function from subject and measure to a value or None."""

    title: str
    value: Callable[[str, str], float | None]


@dataclass(frozen=True, slots=True)
class Recording:
    """The files to write for a build, or None."""

    build_event_json: Path | None = None
    trace: Path | None = None
    junit: Path | None = None
    summary: Path | None = None
    github_annotations: bool = False
    report: Path | None = None

    @property
    def wanted(self) -> bool:
        return any(getattr(self, field.name) for field in fields(self))

    def around(
        self, reporter: Reporter, workspace: Workspace, settings: Settings, base: Base | None = None
    ) -> Reporter:
        """Return the reporter together with the requested recorders. Paths are relative to the current folder; summary
        and report compare with `base` instead of the last builds. Raises UsageError for a file that cannot be
        written, and EnvironmentProblem for a full disk."""
        if not self.wanted:
            return reporter
        import sys

        from modelbuild.report.reporter_scope import SeveralReporters

        folder, reporters = settings.directory, [reporter]
        if self.build_event_json:
            from modelbuild.report.files.build_events import BuildEvents

            reporters.append(BuildEvents(folder / self.build_event_json))
        if self.trace:
            from modelbuild.report.files.trace import Trace

            reporters.append(Trace(folder / self.trace))
        if self.junit:
            from modelbuild.report.files.junit import JUnit

            reporters.append(JUnit(folder / self.junit))
        if self.summary:
            from modelbuild.report.files.markdown import Markdown

            reporters.append(Markdown(folder / self.summary, _comparison(workspace, base)))
        if self.github_annotations:
            from modelbuild.report.files.github import GitHubAnnotations

            reporters.append(GitHubAnnotations(sys.stderr, _prefix(workspace.root)))
        if self.report:
            from modelbuild.cli.page import page_of_build

            reporters.append(page_of_build(folder / self.report, workspace, settings, _comparison(workspace, base)))
        return SeveralReporters(reporters)


def _comparison(workspace: Workspace, base: Base | None) -> Comparison:
    """Return a comparison with the base, or else with the last builds."""
    from modelbuild.history.measurements import Measures
    from modelbuild.report.files.comparison import Comparison
    from modelbuild.session.history import output_bytes

    known = Measures(workspace.config.cache_dir, workspace.root)
    base = base or Base("before", known.last)
    return Comparison(base.value, known.before, partial(output_bytes, workspace), base.title)


def recording(function: Command) -> Command:
    """Add the options of every command that builds; the function gets them as one argument, `recorded`."""
    names = [flag.argument for flag in RECORDING_FLAGS]
    return gather(function, map(option, RECORDING_FLAGS), "recorded", names, Recording)


def _prefix(root: Path) -> str:
    """Return the workspace's path in its repository, where GitHub's paths begin."""
    for parent in (root, *root.parents):
        if (parent / ".git").exists():
            below = root.relative_to(parent).as_posix()
            return "" if below == "." else f"{below}/"
    return ""
