"""`modelbuild report`."""

from __future__ import annotations

from pathlib import Path

import click

from modelbuild.cli.names import COMMANDS
from modelbuild.cli.options import FILE
from modelbuild.cli.page import write_last_build
from modelbuild.cli.settings import Settings
from modelbuild.workspace.workspace import find_root, load_workspace


@click.command("report", short_help=COMMANDS["report"])
@click.option("--output", type=FILE, default="report.html", metavar="FILE", help="The page (report.html).")
@click.pass_obj
def command(settings: Settings, output: Path) -> None:
    """Write an HTML page about the last build that did something, without building.

    The history has neither start times nor the output of actions: build --report FILE writes a page with both.
    """

    write_last_build(settings.directory / output, load_workspace(find_root(settings.directory)), settings)
    click.echo(output)
