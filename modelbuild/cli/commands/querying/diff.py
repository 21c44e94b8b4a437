"""`modelbuild diff`."""

from __future__ import annotations

import dataclasses
import json

import click

from modelbuild.cli.names import COMMANDS
from modelbuild.cli.settings import Settings
from modelbuild.explain.differences import SECRET, materials
from modelbuild.explain.lookup import material_of
from modelbuild.explain.text import difference_line
from modelbuild.workspace.workspace import find_root, load_workspace


@click.command("diff", short_help=COMMANDS["diff"])
@click.argument("key1")
@click.argument("key2")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def command(settings: Settings, key1: str, key2: str, as_json: bool) -> None:
    """Compare the contents of two action keys. The first digits of a key are enough."""

    workspace = load_workspace(find_root(settings.directory))
    old, new = (material_of(workspace, key) for key in (key1, key2))
    found = list(materials(old, new))
    if not found and not (key1.startswith(key2) or key2.startswith(key1)):
        found = [SECRET]
    if as_json:
        click.echo(json.dumps({"version": 1, "differences": [dataclasses.asdict(each) for each in found]}))
        return
    for each in found:
        click.echo(difference_line(each))
    if not found:
        click.echo("no difference")
