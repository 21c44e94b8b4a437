"""`modelbuild doctor`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from modelbuild.cli.group import Settings
from modelbuild.cli.names import COMMANDS

if TYPE_CHECKING:
    from modelbuild.analysis.rules import Rules
    from modelbuild.api.extension import Extension
    from modelbuild.api.probe import Finding, Probe


@click.command("doctor", short_help=COMMANDS["doctor"])
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def command(settings: Settings, as_json: bool) -> int:
    """Check this machine: Python, packages, the sandbox, the cache, GPUs, compilers and the remote cache.

    Each check prints ok, warning or error, and what to do. Exit code 36 if there is an error. Outside of a workspace,
    the settings are the default ones.
    """
    import dataclasses
    import json

    from modelbuild.errors import ExitCode

    findings = []
    for finding in _findings(settings):
        findings.append(finding)
        if not as_json:
            fix = f"\n         {finding.fix}" if finding.fix else ""
            click.echo(f"{finding.status:<7}  {finding.name}: {finding.text}{fix}")
    ok = all(finding.status != "error" for finding in findings)
    if as_json:
        click.echo(json.dumps({"version": 1, "ok": ok, "checks": [dataclasses.asdict(each) for each in findings]}))
    return ExitCode.OK if ok else ExitCode.ENVIRONMENT


def _findings(settings: Settings) -> Iterator[Finding]:
    from modelbuild.analysis.rules import load_rules
    from modelbuild.api.probe import Finding
    from modelbuild.cli.doctor.machine import check_cache, check_gpus, check_sandbox
    from modelbuild.cli.doctor.packages import check_backends, check_engine, check_python
    from modelbuild.cli.doctor.remote_round_trip import check_remote
    from modelbuild.errors import LoadingError, UsageError
    from modelbuild.workspace.workspace import default_workspace, find_root, load_workspace

    yield check_python()
    yield check_engine()
    try:
        workspace = load_workspace(find_root(settings.directory))
    except UsageError:
        workspace = default_workspace(settings.directory)
    try:
        rules = load_rules(workspace.root, workspace.config.rules, workspace.rule_locations())
    except LoadingError as error:
        yield Finding("rules", "error", str(error), "the rest is checked with the built-in rules")
        rules = load_rules(workspace.root, ())
    yield from check_backends(_backends(rules))
    yield check_cache(workspace.config.cache_dir)
    yield from check_sandbox(workspace.config.cache_dir)
    yield check_gpus()
    for probe in rules.probes:
        yield _run(probe)
    yield check_remote(workspace.config.remote)


def _run(probe: Probe) -> Finding:
    from modelbuild.api.probe import Finding

    try:
        return probe.check()
    except Exception as error:
        return Finding(probe.name, "error", f"the check failed: {type(error).__name__}: {error}")


def _backends(rules: Rules) -> Iterator[tuple[Extension, str | None]]:
    """Yield the extensions of every point, each with the distribution that contains its rule package."""
    from modelbuild.code.distributions import Distributions
    from modelbuild.code.extras import distribution_of
    from modelbuild.code.search_path import search_path

    distributions = Distributions(search_path())
    for by_name in rules.extensions.values():
        for _, extension in sorted(by_name.items()):
            yield extension, distribution_of(extension.package, distributions)
