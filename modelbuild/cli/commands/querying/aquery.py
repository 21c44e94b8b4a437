"""`modelbuild aquery`."""

from __future__ import annotations

import click

from modelbuild.analysis.open import open_to_build
from modelbuild.cli.commands.querying.query import GRAPHS
from modelbuild.cli.completion import TARGET
from modelbuild.cli.names import COMMANDS
from modelbuild.cli.settings import Settings
from modelbuild.labels import Label
from modelbuild.query.actions import Actions, as_lines
from modelbuild.query.configured_world import ConfiguredWorld
from modelbuild.query.evaluate import evaluate
from modelbuild.query.output import render


@click.command("aquery", short_help=COMMANDS["aquery"])
@click.argument("expression", type=TARGET)
@click.option(
    "--device", "devices", multiple=True, type=TARGET, metavar="LABEL", help="Query targets built for this device."
)
@click.option("--output", "form", type=click.Choice(("text", *GRAPHS)), default="text", help="Format of the output.")
@click.pass_obj
def command(settings: Settings, expression: str, devices: tuple[str, ...], form: str) -> None:
    """Print the actions of targets: keys, inputs, outputs, steps, tools.

    Nothing is built. Keys, and actions that other actions add, are printed only if the inputs are in the cache.
    """

    workspace = settings.workspace()
    current = workspace.package_of(settings.directory)
    world = ConfiguredWorld(
        open_to_build(workspace),
        current,
        [Label.parse(text, current) for text in devices],
    )
    actions = Actions(world, evaluate(world, expression))
    if form == "text":
        lines = [line for action in sorted(actions.by_id) for line in as_lines(actions.describe(action))]
    else:
        lines = render(actions.by_id, form, actions.needs, actions.describe)
    for line in lines:
        click.echo(line)
