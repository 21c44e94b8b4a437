"""`modelbuild clean`."""

from __future__ import annotations

import click

from modelbuild.cli.commands.machine.cache import collect
from modelbuild.cli.names import COMMANDS
from modelbuild.cli.settings import Settings
from modelbuild.store.local import open_store
from modelbuild.store.output_tree import clean
from modelbuild.workspace.workspace import OUTPUT_FOLDER, find_root, load_workspace


@click.command("clean", short_help=COMMANDS["clean"])
@click.option("--expunge", is_flag=True, help="Also empty the cache, which other workspaces may share.")
@click.pass_obj
def command(settings: Settings, expunge: bool) -> None:
    """Remove modelbuild-out/. The cache stays, so the next build only lays the outputs out again."""

    workspace = load_workspace(find_root(settings.directory))
    clean(workspace.root / OUTPUT_FOLDER)
    if expunge:
        with open_store(workspace.config.cache_dir, max_size=0) as store:
            collect(store)
