"""`modelbuild ci`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelbuild.affected.git import find_ancestors, find_base, find_head
from modelbuild.cli.commands.building.test import testing
from modelbuild.cli.completion import TARGET
from modelbuild.cli.names import COMMANDS
from modelbuild.cli.options import building, no_options, options, targeting
from modelbuild.cli.recording import Base, Recording, recording
from modelbuild.cli.settings import Settings
from modelbuild.cli.targets.pattern_file import Targeted
from modelbuild.events import BuildFinished, Event, TargetBuilt, TestFinished
from modelbuild.history.revisions import Values, read_measures, remember_revision, values_at, write_measures
from modelbuild.ids import TargetId
from modelbuild.report import make_reporter
from modelbuild.report.reporter_scope import SeveralReporters, reporting
from modelbuild.session.history import output_bytes
from modelbuild.session.request import Flags, make_request
from modelbuild.testing.ci import run_ci
from modelbuild.user_files import check_file
from modelbuild.workspace.flags import CI_FLAGS

if TYPE_CHECKING:
    from modelbuild.testing.options import TestOptions
    from modelbuild.workspace.workspace import Workspace


@click.command("ci", short_help=COMMANDS["ci"], context_settings={"ignore_unknown_options": True})
@click.argument("patterns", nargs=-1, metavar="[TARGET]...", type=TARGET)
@options(CI_FLAGS)
@testing
@targeting
@recording
@building
@click.pass_obj
def command(
    settings: Settings,
    /,
    patterns: tuple[str, ...],
    since: str | None,
    measures: Path | None,
    base_measures: Path | None,
    targeted: Targeted,
    flags: Flags,
    recorded: Recording,
    tests: TestOptions,
) -> int:
    """Build and test targets affected by a change (all targets, or only TARGET...).

    Without --since: all of them. Continues after failures.
    """
    no_options(patterns)

    workspace = settings.workspace()
    found = targeted.patterns(patterns, settings.directory, ("//...",))
    request = make_request(workspace, settings.directory, found.texts, flags, found.places)
    base = _base(workspace, since, base_measures and settings.directory / base_measures)
    keep = _keeper(workspace, measures and settings.directory / measures)
    display = request.display
    reporter = make_reporter(quiet=display.quiet, as_json=display.json, show=display.outputs)
    reporter = SeveralReporters([recorded.around(reporter, workspace, settings, base), keep])
    if flags.keep_going is None:
        request = request.keeping_going()
    with reporting(reporter) as reporter:
        return run_ci(workspace, request, since, tests, reporter, targeted.acts)


def _base(workspace: Workspace, since: str | None, measures: Path | None) -> Base | None:
    """Return the values to compare with: from a file of measures, or at the commit of `since`. None: the last
    builds."""

    if measures is not None:
        commit, values = read_measures(measures)
    elif since is not None:
        commit = find_base(workspace.root, since)
        values = values_at(workspace.config.cache_dir, workspace.root, find_ancestors(workspace.root, commit))
    else:
        return None
    return Base(f"at {commit[:12]}" if commit else "before", lambda subject, name: values.get((subject, name)))


def _keeper(workspace: Workspace, measures: Path | None) -> _MeasureRecorder:
    """Return a reporter that stores measurements: in the history by commit, and in a file."""

    commit = find_head(workspace.root)
    if measures is not None:
        check_file(measures)

    def keep(values: Values) -> None:
        if commit is not None:
            remember_revision(workspace.config.cache_dir, workspace.root, commit, values)
        if measures is not None:
            write_measures(measures, commit, values)

    return _MeasureRecorder(partial(output_bytes, workspace), keep)


class _MeasureRecorder:
    """`sizes` returns bytes of outputs; `keep` receives all values by (subject, name) on close, if the build
    finished."""

    def __init__(
        self, sizes: Callable[[Sequence[str]], int], keep: Callable[[Mapping[tuple[str, str], float]], None]
    ) -> None:
        self._sizes = sizes
        self._keep = keep
        self._values: dict[tuple[str, str], float] = {}
        self._finished = False

    def emit(self, event: Event) -> None:
        match event:
            case TargetBuilt() if event.outputs:
                self._values[TargetId.of(event.label, event.config), "bytes"] = float(self._sizes(event.outputs))
            case TestFinished():
                subject = TargetId.of(event.label, event.config)
                self._values.update(((subject, name), value) for name, value in event.measures.items())
            case BuildFinished():
                self._finished = True

    def close(self) -> None:
        if self._finished:
            self._keep(self._values)
