"""`modelbuild history`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from modelbuild.cli.completion import TARGET
from modelbuild.cli.names import COMMANDS
from modelbuild.cli.settings import Settings
from modelbuild.cli.targets.device_history import DeviceHistory, series_json, series_text
from modelbuild.cli.targets.one_program import label_of
from modelbuild.cli.targets.one_target import check_there
from modelbuild.errors import ExitCode, UsageError
from modelbuild.history.measurements import Measures

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
    workspace = settings.workspace()
    if devices or target is None:
        return _on_devices(workspace, settings, devices, target, check, as_json)
    asked = label_of(target, workspace.package_of(settings.directory))
    label = str(asked)
    found = Measures(workspace.config.cache_dir, workspace.root).series(label)
    if not found:
        check_there(workspace, asked)
        raise UsageError(f"{label}: no build or test has measured it")
    rows = [series_json(subject, name, points) for (subject, name), points in found.items()]
    if as_json:
        click.echo(json.dumps({"version": 1, "label": label, "series": rows}))
    for (subject, name), points in () if as_json else found.items():
        click.echo(series_text(subject, name, [point.value for point in points]))
    return ExitCode.BUILD_FAILED if check and any(row["regression"] for row in rows) else ExitCode.OK


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
