"""`modelbuild fetch`."""

from __future__ import annotations

import click

from modelbuild.cli.completion import TARGET
from modelbuild.cli.names import COMMANDS
from modelbuild.cli.options import building, no_options
from modelbuild.cli.settings import Settings
from modelbuild.report import make_reporter
from modelbuild.report.reporter_scope import reporting
from modelbuild.session.fetch import fetch
from modelbuild.session.request import Flags, make_request


@click.command("fetch", short_help=COMMANDS["fetch"], context_settings={"ignore_unknown_options": True})
@click.argument("patterns", nargs=-1, required=True, metavar="TARGET...", type=TARGET)
@building
@click.pass_obj
def command(settings: Settings, /, patterns: tuple[str, ...], flags: Flags) -> int:
    """Bring what targets need from elsewhere, for work without a network.

    Makes toolchains, and downloads files that targets pin. Nothing else is built.
    """
    no_options(patterns)

    workspace = settings.workspace()
    request = make_request(workspace, settings.directory, patterns, flags)
    display, history = request.display, workspace.config.cache_dir
    reporter = make_reporter(quiet=display.quiet, as_json=display.json, history=history)
    with reporting(reporter) as reporter:
        return fetch(workspace, request, reporter)
