"""`modelbuild history`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

import click

from modelbuild.cli.completion import TARGET
from modelbuild.cli.names import COMMANDS
from modelbuild.cli.settings import Settings
from modelbuild.cli.targets.device_history import DeviceHistory
from modelbuild.errors import ExitCode, UsageError
from modelbuild.explain.unbuilt_target import check_there
from modelbuild.history.measurements import Measures
from modelbuild.history.regressions import change, is_regression
from modelbuild.labels import Label
from modelbuild.loading.patterns import parse_pattern
from modelbuild.wording import number
from modelbuild.workspace.workspace import find_root, load_workspace

if TYPE_CHECKING:
    from modelbuild.workspace.workspace import Workspace


@click.command("history", short_help=COMMANDS["history"])
@click.argument("target", metavar="[TARGET]", required=False, type=TARGET)
@click.option("--on", "devices", multiple=True, metavar="LABEL", help="Tests on a device; //... for all devices.")
@click.option("--check", is_flag=True, help="Exit with 1 if a measure became worse.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def command(
    settings: Settings,
    target: str | None,
    devices: tuple[str, ...],
    check: bool,
    as_json: bool,
) -> int:
    """Print measurements of TARGET in builds and tests: seconds, memory, sizes, latencies; and regressions.

    With --on: latencies and memory on devices over commits, of TARGET or all tests, the worst regression first.
    """

    if target is None and not devices:
        raise UsageError("no TARGET; expected the label of one, or --on LABEL for tests on a device")
    workspace = load_workspace(find_root(settings.directory))
    if devices or target is None:
        return _on_devices(workspace, settings, devices, target, check, as_json)
    pattern = parse_pattern(target, workspace.package_of(settings.directory))
    if pattern.name is None or pattern.subtract:
        raise UsageError(f"'{target}' matches several targets; expected the label of one, such as //package:name")
    asked = Label(pattern.package, pattern.name)
    label = str(asked)
    found = Measures(workspace.config.cache_dir, workspace.root).series(label)
    if not found:
        check_there(workspace, asked)
        raise UsageError(f"{label}: no build or test has measured it")
    values = {key: [point.value for point in points] for key, points in found.items()}
    worse = {key for key, each in values.items() if is_regression(key[1], each)}
    code = ExitCode.BUILD_FAILED if check and worse else ExitCode.OK
    if as_json:
        rows = [
            {
                "subject": subject,
                "name": name,
                "change": change(values[subject, name]),
                "regression": (subject, name) in worse,
                "points": [dataclasses.asdict(point) for point in points],
            }
            for (subject, name), points in found.items()
        ]
        click.echo(json.dumps({"version": 1, "label": label, "series": rows}))
        return code
    for (subject, name), each in values.items():
        last, usual, low, high = map(number, (each[-1], median(each), min(each), max(each)))
        shown = f"last {last}, median {usual}, {low} to {high} ({len(each)})"
        grown = _worse(name, each)
        click.echo(f"{subject} {name}: {shown}" + (f"  {grown}" if grown else ""))
    return code


def _on_devices(
    workspace: Workspace,
    settings: Settings,
    devices: tuple[str, ...],
    target: str | None,
    check: bool,
    as_json: bool,
) -> int:

    package = workspace.package_of(settings.directory)
    found = DeviceHistory.read(workspace.config.cache_dir, workspace.root, devices, target, package)
    if not found.series:
        of = f" of {target}" if target else ""
        raise UsageError(f"no test{of} was measured on {', '.join(devices)}")
    if as_json:
        click.echo(json.dumps(found.document()))
    else:
        click.echo("\n".join(found.lines()))
    return ExitCode.BUILD_FAILED if check and found.worse else ExitCode.OK


def _worse(name: str, values: Sequence[float]) -> str:
    """Return `WORSE by 12%`, or ''."""

    return f"WORSE by {abs(change(values) or 0):.0%}" if values and is_regression(name, values) else ""
