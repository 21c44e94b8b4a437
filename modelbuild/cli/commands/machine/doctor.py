"""`modelbuild doctor`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from modelbuild.analysis.analyze import Analyzer
from modelbuild.analysis.rules import load_rules
from modelbuild.api.probe import Finding
from modelbuild.cli.doctor.device import check_device
from modelbuild.cli.doctor.machine import check_cache, check_gpus, check_remote, check_sandbox
from modelbuild.cli.doctor.packages import check_backends, check_engine, check_python
from modelbuild.cli.doctor.toolchains import check_toolchains
from modelbuild.cli.names import COMMANDS
from modelbuild.cli.options import options
from modelbuild.cli.settings import Settings
from modelbuild.cli.targets.device_specs import device_specs
from modelbuild.code.distributions import Distributions
from modelbuild.code.extras import distribution_of
from modelbuild.code.search_path import search_path
from modelbuild.device_runners import KINDS, DeviceSpec, parse_address
from modelbuild.devices.pool import with_runners
from modelbuild.errors import ExitCode, LoadingError, UsageError
from modelbuild.loading.loader import Loader
from modelbuild.session.request import parse_runners
from modelbuild.workspace.flags import BUILD_FLAGS
from modelbuild.workspace.workspace import WORKSPACE_FILE, default_workspace

if TYPE_CHECKING:
    from modelbuild.analysis.rules import Rules
    from modelbuild.api.extension import Extension
    from modelbuild.api.probe import Probe
    from modelbuild.workspace.workspace import Workspace


@click.command("doctor", short_help=COMMANDS["doctor"])
@click.option("--on", metavar="DEVICE", help="Check this device: a label, or an address as in --runner.")
@options(flag for flag in BUILD_FLAGS if flag.name == "runner")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def command(settings: Settings, on: str | None, runners: tuple[str, ...], as_json: bool) -> int:
    """Check this machine: Python, packages, the sandbox, the cache, GPUs, compilers and the remote cache.

    Each check prints ok, warning or error, and what to do. Exit code 36 for an error. Outside of a workspace, settings
    have their defaults. With --on, check a device: its system, GPU, disk, store, lock, clock, runtime.
    """

    findings = []
    if runners and on is None:
        raise UsageError("--runner is for a device; expected --on as well")
    for finding in _findings(settings) if on is None else _device_findings(settings, on, runners):
        findings.append(finding)
        if not as_json:
            fix = f"\n         {finding.fix}" if finding.fix else ""
            click.echo(f"{finding.status:<7}  {finding.name}: {finding.text}{fix}")
    ok = all(finding.status != "error" for finding in findings)
    if as_json:
        click.echo(json.dumps({"version": 1, "ok": ok, "checks": [dataclasses.asdict(each) for each in findings]}))
    return ExitCode.OK if ok else ExitCode.ENVIRONMENT


def _findings(settings: Settings) -> Iterator[Finding]:

    yield check_python()
    yield check_engine()
    try:
        workspace = settings.workspace()
    except UsageError:
        workspace = default_workspace(settings.directory)
    try:
        rules = load_rules(workspace.root, workspace.config.rules, workspace.rule_locations())
    except LoadingError as error:
        yield Finding("rules", "error", str(error), "the rest is checked with the built-in rules")
        rules = load_rules(workspace.root, ())
    yield from _package_findings(workspace, rules)
    yield check_cache(workspace.config.cache_dir)
    yield from check_sandbox(workspace.config.cache_dir)
    yield check_gpus()
    for probe in rules.probes:
        yield _run(probe)
    yield check_remote(workspace.config.remote)


def _package_findings(workspace: Workspace, rules: Rules) -> Iterator[Finding]:
    """Yield the findings of the packages that steps import: in toolchains, and in modelbuild's own Python unless the
    workspace names a toolchain."""

    backends = list(_backends(rules))
    if workspace.config.toolchain is None:
        yield from check_backends(backends)
    if not (workspace.root / WORKSPACE_FILE).exists():
        return

    analyzer = Analyzer(Loader(workspace, rules.by_name), rules, workspace.config.default_device)

    yield from check_toolchains(analyzer, [tool for extension, _ in backends for tool in extension.tools])


def _device_findings(settings: Settings, on: str, runners: tuple[str, ...]) -> Iterator[Finding]:
    """Yield the findings of a device: given its label, or its address, without comparing architectures."""

    if on.partition(":")[0] in KINDS:
        if runners:
            raise UsageError("--runner stands in for a label's runners; expected --on with a label")
        spec, root, rules = DeviceSpec((parse_address(on),), ""), settings.directory, load_rules(settings.directory, ())
    else:
        workspace = settings.workspace()
        package, root = workspace.package_of(settings.directory), workspace.root
        given = [(str(label), runner) for label, runner in parse_runners(runners, package)]
        ((label, declared),) = device_specs(workspace, package, [on], [each for each, _ in given])
        spec = with_runners(label, declared, given)
        rules = load_rules(root, workspace.config.rules, workspace.rule_locations())
    yield from check_device(spec, root, rules.runtimes)


def _run(probe: Probe) -> Finding:

    try:
        return probe.check()
    except Exception as error:
        return Finding(probe.name, "error", f"the check failed: {type(error).__name__}: {error}")


def _backends(rules: Rules) -> Iterator[tuple[Extension, str | None]]:
    """Yield the extensions of every point, each with the distribution that contains its rule package."""

    distributions = Distributions(search_path())
    for by_name in rules.extensions.values():
        for _, extension in sorted(by_name.items()):
            yield extension, distribution_of(extension.package, distributions)
