"""`modelbuild compare`."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from modelbuild.cli.completion import TARGET
from modelbuild.cli.names import COMMANDS
from modelbuild.cli.options import building_in_several, no_options
from modelbuild.cli.recording import Base, Recording, recording
from modelbuild.cli.settings import Settings
from modelbuild.errors import ExitCode, UsageError
from modelbuild.lines import one_line
from modelbuild.report import make_reporter
from modelbuild.report.reporter_scope import SeveralReporters, reporting
from modelbuild.report.toolchain_comparison import Side, as_json, lines, with_tests
from modelbuild.session.request import Flags, make_request
from modelbuild.testing.options import TestOptions
from modelbuild.testing.run import run_tests

if TYPE_CHECKING:
    from modelbuild.workspace.workspace import Workspace


@click.command("compare", short_help=COMMANDS["compare"], context_settings={"ignore_unknown_options": True})
@click.argument("patterns", nargs=-1, required=True, metavar="TARGET...", type=TARGET)
@click.option("--toolchain", "toolchains", multiple=True, metavar="LABEL", help="Build in this toolchain; give two.")
@click.option("--changes", is_flag=True, help="Print only rows that differ.")
@recording
@building_in_several
@click.pass_obj
def command(
    settings: Settings,
    /,
    patterns: tuple[str, ...],
    toolchains: tuple[str, ...],
    changes: bool,
    flags: Flags,
    recorded: Recording,
) -> int:
    """Build and test targets in two toolchains, and print what changes from the first to the second.

    Tests that name one of the targets also run in both, without cached results. --report, --summary and others describe
    the second toolchain, with values of the first.
    """
    no_options(patterns)

    if len(toolchains) != 2 or len(set(toolchains)) != 2:
        got = " ".join(toolchains) or "none"
        raise UsageError(f"expected two toolchains, as --toolchain //:old --toolchain //:new; got {got}")
    workspace = settings.workspace()
    labels = with_tests(workspace, patterns, workspace.package_of(settings.directory))
    make_request(workspace, settings.directory, labels, flags)  # reports wrong flags before any work
    first, before = _build(workspace, settings, labels, flags, toolchains[0], Recording(), None)
    second, after = _build(workspace, settings, labels, flags, toolchains[1], recorded, before)
    if flags.json:
        click.echo(json.dumps(as_json(before, after)))
    else:
        for line in lines(before, after, changes):
            click.echo(one_line(line))
    return second if second != ExitCode.OK else first


def _build(
    workspace: Workspace,
    settings: Settings,
    labels: tuple[str, ...],
    flags: Flags,
    toolchain: str,
    recorded: Recording,
    before: Side | None,
) -> tuple[ExitCode, Side]:
    """Build and test in a toolchain; recorded files compare the results with `before`."""

    request = make_request(workspace, settings.directory, labels, replace(flags, toolchain=toolchain))
    request = request.with_outputs_here()
    if flags.keep_going is None:
        request = request.keeping_going()
    side = Side(workspace, request.means.toolchains().base)
    shown = make_reporter(quiet=request.display.only_results, results=sys.stderr, show="none")
    base = None if before is None else Base(f"in {before.toolchain}", before.value)
    with reporting(SeveralReporters([recorded.around(shown, workspace, settings, base), side])) as reporter:
        code = run_tests(workspace, request, TestOptions(cache_results=False), reporter, build_all=True)
    return code, side
