"""`modelbuild test`."""

from __future__ import annotations

from typing import Any

import click

from modelbuild.cli.completion import TARGET
from modelbuild.cli.names import COMMANDS
from modelbuild.cli.options import Command, building, gather, no_options, option, targeting
from modelbuild.cli.recording import Recording, recording
from modelbuild.cli.settings import Settings
from modelbuild.cli.targets.pattern_file import Targeted
from modelbuild.cli.watch import watching
from modelbuild.report import make_reporter
from modelbuild.report.reporter_scope import reporting
from modelbuild.session.request import Flags, make_request
from modelbuild.testing.options import TestOptions
from modelbuild.testing.run import run_tests
from modelbuild.workspace.flags import TEST_FLAGS


def testing(function: Command) -> Command:
    """Add the options of every command that runs tests; the function gets them as one argument, `tests`."""
    return gather(function, map(option, TEST_FLAGS), "tests", [flag.argument for flag in TEST_FLAGS], _tests)


def _tests(tags: str, **options: Any) -> TestOptions:

    return TestOptions(tags=tuple(tag for tag in tags.split(",") if tag), **options)


@click.command("test", short_help=COMMANDS["test"], context_settings={"ignore_unknown_options": True})
@click.argument("patterns", nargs=-1, metavar="TARGET...", type=TARGET)
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

    A test that this machine cannot run is reported as not run.

    Lays out the tests' reports and programs in modelbuild-out/.
    """
    no_options(patterns)

    workspace = settings.workspace()
    found = targeted.patterns(patterns, settings.directory)
    request = make_request(workspace, settings.directory, found.texts, flags, found.places)
    display = request.display
    reporter = make_reporter(quiet=display.quiet, as_json=display.json, show=display.outputs)
    with reporting(recorded.around(reporter, workspace, settings)) as reporter:
        return run_tests(workspace, request, tests, reporter, acts=targeted.acts)
