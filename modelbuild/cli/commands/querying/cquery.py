"""`modelbuild cquery`."""

from __future__ import annotations

from functools import partial

import click

from modelbuild.analysis.open import open_analyzer, open_to_build
from modelbuild.cli.commands.querying.query import FORMATS, GRAPHS
from modelbuild.cli.completion import TARGET
from modelbuild.cli.names import COMMANDS
from modelbuild.cli.settings import Settings
from modelbuild.labels import Label
from modelbuild.query.configured_world import ConfiguredWorld
from modelbuild.query.evaluate import evaluate
from modelbuild.query.listing import configured_statements, locations, output_files
from modelbuild.query.output import describe_configured, render


@click.command("cquery", short_help=COMMANDS["cquery"])
@click.argument("expression", type=TARGET)
@click.option(
    "--device", "devices", multiple=True, type=TARGET, metavar="LABEL", help="Query targets built for this device."
)
@click.option("--output", "form", type=click.Choice(FORMATS), default="label", help="Format of the output.")
@click.pass_obj
def command(settings: Settings, expression: str, devices: tuple[str, ...], form: str) -> None:
    """Query targets as built for a device, with selects resolved. Nothing is built.

    --output=files lists the outputs of targets, below modelbuild-out/.
    """

    workspace = settings.workspace()
    current = workspace.package_of(settings.directory)
    asked = [Label.parse(text, current) for text in devices]
    opened = open_to_build if form == "files" else open_analyzer  # keys decide the names of some outputs
    world = ConfiguredWorld(opened(workspace), current, asked)
    found = evaluate(world, expression)
    if form in GRAPHS:
        lines = render(found, form, world.needs, partial(describe_configured, world))
    elif form == "files":
        lines, unknown = output_files(world, found)
        for label in unknown:
            click.echo(f"note: {label}: some names of outputs are known only after its actions have run", err=True)
    else:
        lines = locations(world, found) if form == "location" else configured_statements(world, found)
    for line in lines:
        click.echo(line)
