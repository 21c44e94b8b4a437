"""`modelbuild info`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from modelbuild.cli.group import Settings
from modelbuild.cli.names import COMMANDS

if TYPE_CHECKING:
    from modelbuild.workspace import Workspace

# Distributions that steps of the built-in rules use.
TOOLS = ("torch", "executorch", "torch-tensorrt-rtx", "tensorrt_rtx", "torch-tensorrt", "tensorrt", "triton")


@click.command("info", short_help=COMMANDS["info"])
@click.argument("key", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def command(settings: Settings, key: str | None, as_json: bool) -> None:
    """Tell what this workspace and this machine are set to; with KEY only that, as it is."""
    import json

    from modelbuild.errors import UsageError, did_you_mean
    from modelbuild.workspace import find_root, load_workspace

    facts = gather(load_workspace(find_root(settings.directory)))
    if key is not None and key not in facts:
        raise UsageError(f"no '{key}'{did_you_mean(key, facts)}; known: {', '.join(facts)}")
    if key is not None:
        facts = {key: facts[key]}
    if as_json:
        click.echo(json.dumps(facts))
    elif key is not None:
        click.echo(_text(facts[key]))
    else:
        width = max(map(len, facts))
        for name, fact in facts.items():
            click.echo(f"{name:<{width}}  {_text(fact)}".rstrip())


def gather(workspace: Workspace) -> dict[str, Any]:
    """Every fact by its key: JSON values, sizes in bytes."""
    import os
    import platform

    from modelbuild import __version__
    from modelbuild.execution.landlock import describe
    from modelbuild.execution.resources import machine
    from modelbuild.workspace import OUTPUT_FOLDER

    config = workspace.config
    jobs = config.jobs or len(os.sched_getaffinity(0))
    resources = machine(jobs)
    return {
        "version": __version__,
        "python": platform.python_version(),
        "workspace": str(workspace.root),
        "output": str(workspace.root / OUTPUT_FOLDER),
        "cache": str(config.cache_dir),
        "cache_size": config.cache_size,
        "rules": ["modelbuild_rules", *config.rules],
        "profiles": sorted(config.profiles),
        "devices": _devices(workspace),
        "default_device": None if config.default_device is None else str(config.default_device),
        "jobs": jobs,
        "machine": platform.machine(),
        "memory": resources.memory,
        "gpus": resources.gpu,
        "sandbox": describe(),
        "tools": _tools(),
    }


def _devices(workspace: Workspace) -> list[str] | None:
    """Labels that --device takes; None while a BUILD file is too broken to tell."""
    from modelbuild.analysis.analyze import Analyzer
    from modelbuild.analysis.rules import load_rules
    from modelbuild.api.providers import Platform
    from modelbuild.errors import ModelbuildError
    from modelbuild.loading.loader import Loader
    from modelbuild.loading.patterns import expand_patterns

    try:
        rules = load_rules(workspace.root, workspace.config.rules, workspace.rule_locations())
        loader = Loader(workspace, rules.by_name)
        analyzer = Analyzer(loader, rules, workspace.config.default_device)
        targets = [analyzer.analyze(target.label) for target in expand_patterns(loader, ["//..."])]
    except ModelbuildError:
        return None
    return [str(t.node.label) for t in targets if any(isinstance(p, Platform) for p in t.providers)]


def _tools() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in TOOLS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _text(fact: Any) -> str:
    if isinstance(fact, dict):
        return ", ".join(f"{name} {value}" for name, value in fact.items())
    if isinstance(fact, list):
        return ", ".join(fact)
    return "" if fact is None else str(fact)
