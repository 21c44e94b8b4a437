"""`modelbuild explain`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from modelbuild.cli.completion import TARGET
from modelbuild.cli.names import COMMANDS
from modelbuild.cli.settings import Settings
from modelbuild.cli.targets.one_program import label_of
from modelbuild.cli.targets.one_target import check_there
from modelbuild.errors import EnvironmentProblem, UsageError
from modelbuild.explain.changed_since import pending
from modelbuild.explain.compare import compare, write_dump
from modelbuild.explain.text import BuildTime, explanation_json, explanation_lines
from modelbuild.explain.verdicts import explain, last_success
from modelbuild.history.action_records import Records
from modelbuild.labels import Label

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command("explain", short_help=COMMANDS["explain"])
@click.argument("target", metavar="TARGET", type=TARGET)
@click.option("--device", "devices", multiple=True, type=TARGET, metavar="LABEL", help="The device of the build.")
@click.option("--against", type=_FILE, metavar="FILE", help="Compare with a file written by --dump, here or elsewhere.")
@click.option("--dump", type=_FILE, metavar="FILE", help="Write the contents of the last build's keys to FILE.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def command(
    settings: Settings, target: str, devices: tuple[str, ...], against: Path | None, dump: Path | None, as_json: bool
) -> None:
    """Explain why each action of TARGET ran or was cached in its last build.

    The first lines list changes since the last build of TARGET that succeeded. Nothing is built.
    """

    workspace = settings.workspace()
    current = workspace.package_of(settings.directory)
    label = label_of(target, current)
    records = Records(workspace.config.cache_dir, workspace.root)
    verdicts = explain(records, str(label))
    if not verdicts and (problem := records.problem()):
        raise EnvironmentProblem(f"{label}: no known builds: {problem}")
    if not verdicts:
        check_there(workspace, label, acts=True)
        raise UsageError(f"{label}: never built in this workspace; build it first")
    if dump is not None:
        write_dump(records, verdicts, settings.directory / dump)
    if against is not None:
        verdicts = compare(records, verdicts, settings.directory / against)
    success = last_success(records, str(label))
    since = pending(workspace, records, label, [Label.parse(text, current) for text in devices], success)
    shown = records.rows(verdicts[-1].facts.id)[0].last if success is None else success
    built = BuildTime(records.built_at(shown), success is not None)
    if as_json:
        click.echo(json.dumps(explanation_json(str(label), built, since, verdicts, against)))
        return
    for line in explanation_lines(str(label), built, since, verdicts, against):
        click.echo(line)
