"""`modelbuild devices`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from modelbuild.cli.completion import TARGET
from modelbuild.cli.names import COMMANDS
from modelbuild.cli.options import options
from modelbuild.cli.settings import Settings
from modelbuild.cli.targets.device_specs import device_specs
from modelbuild.devices.pool import ask_all, with_runners
from modelbuild.session.request import parse_runners
from modelbuild.wording import size_text
from modelbuild.workspace.flags import BUILD_FLAGS

if TYPE_CHECKING:
    from modelbuild.device_runners import DeviceSpec
    from modelbuild.devices.pool import Asked
VERSION = 1


@click.command("devices", short_help=COMMANDS["devices"])
@click.argument("labels", nargs=-1, metavar="LABEL...", type=TARGET)
@options(flag for flag in BUILD_FLAGS if flag.name == "runner")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def command(settings: Settings, labels: tuple[str, ...], runners: tuple[str, ...], as_json: bool) -> None:
    """List devices and their runners: who is there, free or in use, what they have. Without LABEL, all devices.

    Devices without a runner are listed if they are named.
    """

    workspace = settings.workspace()
    package = workspace.package_of(settings.directory)
    given = [(str(label), runner) for label, runner in parse_runners(runners, package)]
    found = []
    for name, declared in device_specs(workspace, package, labels, [label for label, _ in given]):
        spec = with_runners(name, declared, given)
        if not spec.runners and not labels:
            continue
        asked = ask_all(spec, workspace.root)
        for each in asked:
            if each.device is not None:
                each.device.close()
        found.append(_described(name, spec, asked))
        if not as_json:
            click.echo("\n".join(_lines(found[-1])))
    if as_json:
        click.echo(json.dumps({"version": VERSION, "devices": found}))
    elif not found:
        click.echo("no device with a runner; expected `runners` of a device_target, or --runner LABEL=ADDRESS")


def _described(label: str, spec: DeviceSpec, asked: list[Asked]) -> dict[str, Any]:
    return {
        "label": label,
        "arch": spec.arch,
        "compute_capabilities": list(spec.compute_capabilities),
        "runners": [
            {
                "runner": each.runner.name,
                "address": each.runner.address,
                "state": "unusable" if each.problem else "free" if _owner(each) is None else "in use",
                "problem": each.problem,
                "owner": _owner(each) or "",
                "identity": each.facts.identity() if each.facts else {},
                "free_bytes": each.facts.free if each.facts and each.facts.free >= 0 else None,
                "memory_bytes": each.facts.memory if each.facts and each.facts.memory >= 0 else None,
            }
            for each in asked
        ],
    }


def _owner(asked: Asked) -> str | None:
    return asked.facts.owner if asked.facts else None


def _lines(device: dict[str, Any]) -> Iterator[str]:

    capabilities = ", ".join(device["compute_capabilities"])
    yield f"{device['label']}  {device['arch']}{f', compute capability {capabilities}' if capabilities else ''}"
    if not device["runners"]:
        yield "  no runner; expected `runners` of the device_target, or --runner LABEL=ADDRESS"
    for each in device["runners"]:
        state = each["state"] + (f" by {each['owner']}" if each["owner"] else "")
        name = f"{each['runner']}  " if each["runner"].startswith("//") else ""  # else it is the address
        yield f"  {name}{each['address']}  {each['problem'] or state}"
        identity = each["identity"]
        facts = [identity.get(name, "") for name in ("model", "cpu", "gpu", "image", "os", "kernel", "libc")]
        facts += [f"{identity['cpus']} cores"] if "cpus" in identity else []
        facts += [f"{size_text(each['memory_bytes'])} memory"] if each["memory_bytes"] is not None else []
        facts += [f"{size_text(each['free_bytes'])} free"] if each["free_bytes"] is not None else []
        if any(facts):
            yield f"    {', '.join(filter(None, facts))}"
