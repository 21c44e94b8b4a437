"""`modelbuild clean`."""

from __future__ import annotations

import sys

import click

from modelbuild.cli.commands.machine.cache import collect
from modelbuild.cli.names import COMMANDS
from modelbuild.cli.settings import Settings
from modelbuild.lines import one_line
from modelbuild.report.text import write
from modelbuild.store.local import open_store
from modelbuild.store.output_tree import clean
from modelbuild.wording import count
from modelbuild.workspace.workspace import OUTPUT_FOLDER


@click.command("clean", short_help=COMMANDS["clean"])
@click.option("--expunge", is_flag=True, help="Also empty the cache, which other workspaces may share.")
@click.pass_obj
def command(settings: Settings, expunge: bool) -> None:
    """Remove the outputs in modelbuild-out/. The next build lays them out again from the cache.

    Other files stay, and so does everything behind a symbolic link.
    """

    workspace = settings.workspace()
    kept = clean(workspace.root / OUTPUT_FOLDER)
    if kept:
        them = "them" if len(kept) > 1 else "it"
        also = f" and {count(len(kept) - 1, 'other file')}" if len(kept) > 1 else ""
        write(sys.stderr, one_line(f"note: {OUTPUT_FOLDER}/{kept[0]}{also} stayed: no build laid {them} out"))
    if expunge:
        with open_store(workspace.config.cache_dir, max_size=0) as store:
            collect(store)
