"""`modelbuild test`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from modelbuild.build.request import Flags
from modelbuild.cli.group import Settings
from modelbuild.cli.names import COMMANDS
from modelbuild.cli.options import Command, building, gather, no_options, option, targeting
from modelbuild.cli.recording import Recording, recording
from modelbuild.cli.targets.pattern_file import Targeted
from modelbuild.cli.watch import watching
from modelbuild.workspace.flags import TEST_FLAGS

if TYPE_CHECKING:
    from modelbuild.testing.run import TestOptions


def testing(function: Command) -> Command:
    """Add the options of every command that runs tests; the function gets them as one argument, `tests`."""
    return gather(function, map(option, TEST_FLAGS), "tests", [flag.argument for flag in TEST_FLAGS], _tests)


def _tests(tags: str, **options: Any) -> TestOptions:
    from modelbuild.testing.run import TestOptions

    return TestOptions(tags=tuple(tag for tag in tags.split(",") if tag), **options)


@click.command("test", short_help=COMMANDS["test"], context_settings={"ignore_unknown_options": True})
@click.argument("patterns", nargs=-1, metavar="TARGET...")
@testing
@targeting
@recording
@building
@click.pass_obj
@watching
def command(
    settings: Settings,
    /,
    patterns: tuple[str, ...],
    targeted: Targeted,
    flags: Flags,
    recorded: Recording,
    tests: TestOptions,
) -> int:
    """Build and run the tests among TARGET and in its test suites.

    A test passes if it ran and all its cases passed. A test that this machine cannot run is reported as not run.
    """
    no_options(patterns)
    from dataclasses import replace

    from modelbuild.build.import_folders import import_path, importable
    from modelbuild.build.request import make_request
    from modelbuild.build.snapshot import Seen, Snapshots
    from modelbuild.cli.quick.saved_commands import QUIET, save_command
    from modelbuild.report import make_reporter
    from modelbuild.report.reporter_scope import reporting
    from modelbuild.testing.record_results import ResultRecorder
    from modelbuild.testing.run import plan_tests, run_tests
    from modelbuild.workspace.workspace import find_root, load_workspace

    workspace = load_workspace(find_root(settings.directory))
    found = targeted.patterns(patterns, settings.directory)
    request = replace(make_request(workspace, settings.directory, found.texts, flags), places=found.places)
    history, show = workspace.config.cache_dir, request.show_outputs
    reporter = make_reporter(quiet=request.quiet, as_json=request.json, history=history, show=show)
    reporter = recorded.around(reporter, workspace, settings)
    if not targeted.acts:
        with reporting(reporter):
            return plan_tests(workspace, request, tests, reporter)
    snapshots, purpose = Snapshots.of(workspace), replace(request, purpose=tests.purpose())
    seen = Seen()
    seen.python.update(importable(import_path()))
    recorder = ResultRecorder(snapshots, purpose, seen)
    with reporting(reporter):
        tested = run_tests(workspace, request, tests, reporter, recorder=recorder)
    if tested.text and not request.json and not recorded.wanted and not found.places:
        save_command(settings.arguments, snapshots.path(purpose), QUIET if request.quiet else show, tested.text)
    return tested.code
