"""`modelbuild release`."""

from __future__ import annotations

import sys

import click

from modelbuild.cli.completion import TARGET
from modelbuild.cli.names import COMMANDS
from modelbuild.cli.options import building
from modelbuild.cli.publishing import Publication, build_and_publish, publishing, release_of
from modelbuild.cli.settings import Settings
from modelbuild.cli.targets.one_target import one_target
from modelbuild.errors import ExitCode, UsageError
from modelbuild.publish.destination import parse_destination
from modelbuild.report import make_reporter
from modelbuild.report.reporter_scope import reporting
from modelbuild.session.request import Flags
from modelbuild.testing.options import TestOptions
from modelbuild.testing.run import run_tests


@click.command("release", short_help=COMMANDS["release"])
@click.argument("target", metavar="TARGET", type=TARGET)
@publishing
@building
@click.pass_obj
def command(settings: Settings, /, target: str, publication: Publication, flags: Flags) -> int:
    """Build TARGET, a release, run its tests, and publish its files under its version.

    Nothing is published unless all its tests ran and passed.
    """

    parse_destination(publication.to)  # a wrong address fails before the build
    workspace, request = one_target(settings.directory, target, flags)
    release = release_of(workspace, request)
    if release is None:
        raise UsageError(f"{request.targets.patterns[0]} is no release; expected a target of the rule `release`")
    destination = parse_destination(publication.to, release.version)
    with reporting(make_reporter(quiet=request.display.only_results, results=sys.stderr)) as reporter:
        everything = request.of((*request.targets.patterns, *release.tests))
        code = run_tests(workspace, everything, TestOptions(require_all=True), reporter, build_all=True)
    if code != ExitCode.OK:
        return code
    return build_and_publish(workspace, request, publication.at(settings.directory), destination, release.version)
