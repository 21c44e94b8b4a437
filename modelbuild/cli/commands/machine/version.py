"""`modelbuild version`."""

from __future__ import annotations

import click

from modelbuild import __version__
from modelbuild.cli.names import COMMANDS


@click.command("version", short_help=COMMANDS["version"])
def command() -> None:
    """Print the version."""

    click.echo(f"modelbuild {__version__}")
