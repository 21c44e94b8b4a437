"""`modelbuild inspect`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from modelbuild.cli.completion import TARGET
from modelbuild.cli.names import COMMANDS
from modelbuild.cli.options import FILE, building
from modelbuild.cli.page import write_program
from modelbuild.cli.settings import Settings
from modelbuild.cli.targets.loaded_rules import extensions_here
from modelbuild.cli.targets.one_program import build_here, label_of, only_file
from modelbuild.errors import ExitCode, UsageError
from modelbuild.inspect.blobs import Blobs
from modelbuild.inspect.cost import cost_lines
from modelbuild.inspect.facts import gather
from modelbuild.inspect.text import lines
from modelbuild.lines import one_line
from modelbuild.session.request import Flags


@click.command("inspect", short_help=COMMANDS["inspect"])
@click.argument("program", metavar="PROGRAM", type=TARGET)
@click.option("--nodes", "every_node", is_flag=True, help="List each node outside partitions instead of counts.")
@click.option("--cost", is_flag=True, help="Print the estimated time on the device instead, without running it.")
@click.option("--html", type=FILE, metavar="FILE", help="Write an HTML page with a picture of the partitions instead.")
@building
@click.pass_obj
def command(settings: Settings, program: str, every_node: bool, cost: bool, html: Path | None, flags: Flags) -> int:
    """Print the contents of a .pte: partitions, engines, devices, and nodes outside partitions with reasons.

    PROGRAM is a file, or the label of a target that builds one. Reasons need a delegation.json next to the .pte.
    """

    path = settings.directory / program
    if not program.endswith(".pte") and not path.is_file():
        workspace = settings.workspace()
        label = label_of(program, workspace.package_of(settings.directory))
        _, built = build_here(workspace, settings.directory, ((label, ".pte"),), flags)
        if built.code != ExitCode.OK:
            return built.code
        path = workspace.root / only_file(built, label, ".pte")
    elif not path.exists():
        raise UsageError(f"no file {program}; expected a .pte, or the label of a target that builds one")
    facts = gather(path, Blobs(lambda: extensions_here(settings.directory)))
    if html is not None:
        write_program(settings.directory / html, program, facts)
    if flags.json:
        click.echo(json.dumps(facts))
    if flags.json or html is not None:
        return ExitCode.OK
    for line in cost_lines(facts) if cost else lines(facts, every_node):
        click.echo(one_line(line))
    return ExitCode.OK
