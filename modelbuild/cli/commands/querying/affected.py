"""`modelbuild affected`."""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass

import click

from modelbuild.affected.affected import affected
from modelbuild.affected.jobs import divide, github_matrix
from modelbuild.affected.target_work import work_of
from modelbuild.analysis.open import open_analyzer
from modelbuild.cli.completion import TARGET
from modelbuild.cli.names import COMMANDS
from modelbuild.cli.options import Command, gather
from modelbuild.cli.settings import Settings
from modelbuild.durations import parse_duration
from modelbuild.history.estimates import target_estimates
from modelbuild.labels import Label
from modelbuild.query.functions import compiled

_OPTIONS = [
    click.option(
        "--format",
        "form",
        type=click.Choice(("label", "json", "github-matrix")),
        default="label",
        show_default=True,
        help="Format of the output.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Same as --format json."),
    click.option(
        "--jobs",
        type=click.IntRange(min=1),
        default=8,
        show_default=True,
        help="Maximum number of jobs in the matrix.",
    ),
    click.option(
        "--min-job-length",
        "least",
        default="5 min",
        show_default=True,
        metavar="DURATION",
        help="Begin no further job while one is shorter than this.",
    ),
]


@dataclass(frozen=True, slots=True)
class AffectedListing:
    """The format of a list of targets: label, json, or github-matrix with at most `jobs` jobs. Jobs shorter than
    `least` seconds are filled first."""

    form: str
    jobs: int
    least: float


def listing(function: Command) -> Command:
    """Add the options of a list of targets; the function gets them as one argument, `listed`."""
    return gather(function, _OPTIONS, "listed", ("form", "as_json", "jobs", "least"), _listing)


def _listing(form: str, as_json: bool, jobs: int, least: str) -> AffectedListing:
    try:
        return AffectedListing("json" if as_json and form == "label" else form, jobs, parse_duration(least))
    except ValueError as error:
        raise click.UsageError(f"--min-job-length: {error}") from None


@click.command("affected", short_help=COMMANDS["affected"])
@click.argument("patterns", nargs=-1, metavar="[TARGET]...", type=TARGET)
@click.option("--since", required=True, metavar="REF", help="Compare with the merge base of REF and HEAD.")
@click.option("--exact", is_flag=True, help="Compare with REF itself.")
@click.option(
    "--device", "devices", multiple=True, type=TARGET, metavar="LABEL", help="Compare targets built for this device."
)
@click.option("--kind", metavar="REGEX", help="Only targets whose rule matches.")
@click.option("--tests", is_flag=True, help="Only tests.")
@listing
@click.pass_obj
def command(
    settings: Settings,
    patterns: tuple[str, ...],
    since: str,
    exact: bool,
    devices: tuple[str, ...],
    kind: str | None,
    tests: bool,
    listed: AffectedListing,
) -> None:
    """List targets affected by changes since REF (all targets, or only TARGET...). Nothing is built."""

    workspace = settings.workspace()
    current = workspace.package_of(settings.directory)
    labels = [Label.parse(text, current) for text in devices]
    found = affected(workspace, patterns or ("//...",), current, since, labels, exact)
    regex = compiled(kind) if kind else re.compile("")
    targets = [t for t in found.targets if regex.search(t.rule) and (not tests or t.rule.endswith("_test"))]
    if listed.form == "label":
        for target in targets:
            click.echo(target.label)
        return

    if listed.form == "github-matrix":
        names = [Label.parse(target.label) for target in targets]
        work, seconds = work_of(open_analyzer(workspace), names, labels, workspace.config.cache_dir)
        click.echo(json.dumps(github_matrix(divide(work, seconds, listed.jobs, listed.least))))
        return

    estimates = target_estimates(workspace.config.cache_dir, [target.label for target in targets])
    rows = [{**dataclasses.asdict(t), "seconds": estimates.get(t.label)} for t in targets]
    answer = {"version": 1, "since": since, "base": found.base, "everything": found.everything or None}
    click.echo(json.dumps({**answer, "targets": rows, "deleted": list(found.deleted)}))
