"""`modelbuild lsp`."""

from __future__ import annotations

import click

from modelbuild.cli.names import COMMANDS
from modelbuild.cli.settings import Settings
from modelbuild.errors import UsageError
from modelbuild.workspace.workspace import find_root


@click.command("lsp", short_help=COMMANDS["lsp"])
@click.pass_obj
def command(settings: Settings) -> None:
    """Serve editors that speak the Language Server Protocol, on standard input and output.

    Completes and checks BUILD.toml files. Needs modelbuild[lsp].
    """

    root = find_root(settings.directory)
    try:
        from modelbuild.lsp.server import make_server
    except ImportError:
        raise UsageError("lsp needs pygls; expected: pip install 'modelbuild[lsp]'") from None
    make_server(root).start_io()
