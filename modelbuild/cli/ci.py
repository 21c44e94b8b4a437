"""`modelbuild ci`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from modelbuild.building.request import Flags
from modelbuild.cli.group import Settings
from modelbuild.cli.names import COMMANDS
from modelbuild.cli.options import building, no_options
from modelbuild.cli.recording import Recording, recording
from modelbuild.cli.test import split_tags, testing


@click.command("ci", short_help=COMMANDS["ci"], context_settings={"ignore_unknown_options": True})
@click.argument("patterns", nargs=-1, metavar="[TARGET]...")
@click.option("--since", metavar="REF", help="Only what differs from the merge base of REF and HEAD.")
@testing
@recording
@building
@click.pass_obj
def command(
    settings: Settings,
    /,
    patterns: tuple[str, ...],
    since: str | None,
    flags: Flags,
    recorded: Recording,
    tags: str,
    **options: Any,
) -> int:
    """Build and test, in one go, what a change touches: of TARGET, or of all.

    Without --since: everything. The exit code is that of the first thing that went wrong.
    """
    no_options(patterns)
    from modelbuild.building.request import make_request
    from modelbuild.ci import run_ci
    from modelbuild.errors import ModelbuildError
    from modelbuild.report import make_reporter
    from modelbuild.report.events import BuildAborted
    from modelbuild.testing.run import TestOptions
    from modelbuild.workspace import find_root, load_workspace

    workspace = load_workspace(find_root(settings.directory))
    request = make_request(workspace, settings.directory, patterns or ("//...",), flags)
    reporter = make_reporter(quiet=request.quiet, as_json=request.json)
    reporter = recorded.around(reporter, workspace, settings.directory)
    chosen = TestOptions(tags=split_tags(tags), **options)
    try:
        return run_ci(workspace, replace(request, keep_going=flags.keep_going is not False), since, chosen, reporter)
    except (ModelbuildError, KeyboardInterrupt) as error:
        interrupted = isinstance(error, KeyboardInterrupt)
        reporter.emit(BuildAborted("interrupted" if interrupted else str(error), interrupted))
        raise
    finally:
        reporter.close()
