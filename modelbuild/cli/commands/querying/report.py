"""`modelbuild report`."""

from __future__ import annotations

from pathlib import Path

import click

from modelbuild.cli.names import COMMANDS
from modelbuild.cli.options import FILE
from modelbuild.cli.page import write_last_build
from modelbuild.cli.settings import Settings
from modelbuild.errors import UsageError
from modelbuild.report.page.html import is_page
from modelbuild.user_files import explained
from modelbuild.workspace.workspace import find_root, load_workspace

_DEFAULT = "report.html"


@click.command("report", short_help=COMMANDS["report"])
@click.option("--output", type=FILE, metavar="FILE", help=f"The page ({_DEFAULT}).")
@click.pass_obj
def command(settings: Settings, output: Path | None) -> None:
    """Write an HTML page about the last build that did something, without building.

    The history has neither start times nor the output of actions: build --report FILE writes a page with both.
    """

    if output is None:
        output = Path(_DEFAULT)
        _check_ours(settings.directory / output)
    write_last_build(settings.directory / output, load_workspace(find_root(settings.directory)), settings)
    click.echo(output)


def _check_ours(path: Path) -> None:
    """Raise UsageError for a file that would be replaced, but that no one asked for and modelbuild did not write."""
    with explained(path):
        if path.exists() and not is_page(path):
            raise UsageError(f"{path.name} is not a page of modelbuild; expected --output FILE to replace it")
