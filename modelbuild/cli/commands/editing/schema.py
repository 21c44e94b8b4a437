"""`modelbuild schema`."""

from __future__ import annotations

import json

import click

from modelbuild.analysis.json_schema import build_file_schema
from modelbuild.analysis.rules import load_rules
from modelbuild.cli.names import COMMANDS
from modelbuild.cli.settings import Settings
from modelbuild.workspace.workspace import find_root, load_workspace


@click.command("schema", short_help=COMMANDS["schema"])
@click.pass_obj
def command(settings: Settings) -> None:
    """Print a JSON Schema of this workspace's BUILD.toml files, with the rules that it loads.

    Save it, and refer to it in your editor; Taplo reads it from a first line `#:schema build.schema.json`.
    """

    workspace = load_workspace(find_root(settings.directory))
    rules = load_rules(workspace.root, workspace.config.rules, workspace.rule_locations())
    click.echo(json.dumps(build_file_schema(rules.by_name), indent=2))
