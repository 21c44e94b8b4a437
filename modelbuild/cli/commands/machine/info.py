"""`modelbuild info`."""

from __future__ import annotations

import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from modelbuild import __version__
from modelbuild.actions import INSTALLED
from modelbuild.analysis.analyze import Analyzer
from modelbuild.analysis.rules import load_rules
from modelbuild.api.providers import Platform
from modelbuild.cli.names import COMMANDS
from modelbuild.cli.settings import Settings
from modelbuild.errors import ModelbuildError, UsageError, did_you_mean
from modelbuild.execution.gpus import visible
from modelbuild.execution.isolation.guarantees import guarantees
from modelbuild.execution.scheduling.slots import machine
from modelbuild.loading.loader import Loader
from modelbuild.loading.patterns import expand_patterns
from modelbuild.workspace.workspace import OUTPUT_FOLDER

if TYPE_CHECKING:
    from modelbuild.analysis.rules import Rules
    from modelbuild.workspace.workspace import Workspace

VERSION = 1


@click.command("info", short_help=COMMANDS["info"])
@click.argument("key", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def command(settings: Settings, key: str | None, as_json: bool) -> None:
    """Print settings of this workspace and this machine; with KEY only its value."""

    facts = gather(settings.workspace())
    if key is not None and key not in facts:
        raise UsageError(f"no '{key}'{did_you_mean(key, facts)}; known: {', '.join(facts)}")
    if key is not None:
        facts = {key: facts[key]}
    if as_json:
        click.echo(json.dumps({"version": VERSION, **facts}))
    elif key is not None:
        click.echo(_text(facts[key], "\n" if key == "sandbox" else ", "))
    else:
        width = max(map(len, facts))
        for name, fact in facts.items():
            between = "\n" + " " * (width + 2) if name == "sandbox" else ", "
            click.echo(f"{name:<{width}}  {_text(fact, between)}".rstrip())


def gather(workspace: Workspace) -> dict[str, Any]:
    """Every fact by its name: JSON values, sizes in bytes."""

    config = workspace.config
    jobs = config.jobs or len(os.sched_getaffinity(0))
    resources = machine(jobs)
    rules = _rules(workspace)
    return {
        "modelbuild": __version__,
        "python": platform.python_version(),
        "workspace": str(workspace.root),
        "output": str(workspace.root / OUTPUT_FOLDER),
        "cache": str(config.cache_dir),
        "cache_size": config.cache_size,
        "rules": ["modelbuild_rules", *config.rules],
        "profiles": sorted(config.profiles),
        "devices": _devices(workspace, rules),
        "default_device": None if config.default_device is None else str(config.default_device),
        "toolchain": INSTALLED if config.toolchain is None else str(config.toolchain),
        "jobs": jobs,
        "machine": platform.machine(),
        "memory": resources.memory,
        "gpus": resources.gpu,
        "gpu_models": list(visible()),
        "sandbox": [str(each) for each in guarantees(config.cache_dir)],
        "tools": _tools(rules),
    }


def _rules(workspace: Workspace) -> Rules | None:
    """Return the workspace's rules; None if one of its rule packages does not load."""

    try:
        return load_rules(workspace.root, workspace.config.rules, workspace.rule_locations())
    except ModelbuildError:
        return None


def _devices(workspace: Workspace, rules: Rules | None) -> list[str] | None:
    """Return the labels for --device; None if a rule package or a BUILD file does not load."""

    if rules is None:
        return None
    try:
        loader = Loader(workspace, rules.by_name)
        analyzer = Analyzer(loader, rules, workspace.config.default_device)
        targets = [analyzer.analyze(target.label) for target in expand_patterns(loader, ["//..."])]
    except ModelbuildError:
        return None
    return [str(t.node.label) for t in targets if any(isinstance(p, Platform) for p in t.providers)]


def _tools(rules: Rules | None) -> dict[str, str]:
    """Return the versions of the installed distributions that a backend or another extension names; only by built-in
    extensions if a rule package does not load."""

    extensions = (rules or load_rules(Path(), ())).extensions.values()
    found = {}
    for name in sorted({tool for each in extensions for extension in each.values() for tool in extension.tools}):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _text(fact: Any, between: str = ", ") -> str:
    if isinstance(fact, dict):
        return ", ".join(f"{name} {value}" for name, value in fact.items())
    if isinstance(fact, list):
        return between.join(fact)
    return "" if fact is None else str(fact)
