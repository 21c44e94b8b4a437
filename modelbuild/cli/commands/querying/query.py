"""`modelbuild query`."""

from __future__ import annotations

from functools import partial

import click

from modelbuild.analysis.open import open_analyzer
from modelbuild.cli.completion import TARGET
from modelbuild.cli.names import COMMANDS
from modelbuild.cli.settings import Settings
from modelbuild.query.evaluate import evaluate
from modelbuild.query.listing import declared_statements, locations, source_files
from modelbuild.query.output import describe_declared, render
from modelbuild.query.target_world import TargetWorld

# See modelbuild.query.output; modelbuild.query.listing has the formats for targets only.
GRAPHS = ("label", "json", "dot")
FORMATS = (*GRAPHS, "build", "files", "location")


@click.command("query", short_help=COMMANDS["query"])
@click.argument("expression", type=TARGET)
@click.option("--output", "form", type=click.Choice(FORMATS), default="label", help="Format of the output.")
@click.pass_obj
def command(settings: Settings, expression: str, form: str) -> None:
    """Query targets as declared in BUILD files, for example `deps(//models:detector)`.

    Nothing is built. Every branch of a select counts.
    """

    workspace = settings.workspace()
    analyzer = open_analyzer(workspace)
    world = TargetWorld(analyzer.loader, analyzer.rules, workspace.package_of(settings.directory))
    found = evaluate(world, expression)
    if form in GRAPHS:
        lines = render(found, form, world.needs, partial(describe_declared, world))
    else:
        listings = {"build": declared_statements, "files": source_files, "location": locations}
        lines = listings[form](world, found)
    for line in lines:
        click.echo(line)
