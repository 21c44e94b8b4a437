"""The rules that commands describe: the rules of the workspace, or the built-in rules outside of a workspace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelbuild.analysis.rules import load_rules
from modelbuild.errors import ModelbuildError, UsageError, did_you_mean
from modelbuild.workspace.workspace import find_root, load_workspace

if TYPE_CHECKING:
    from modelbuild.api.command import Command
    from modelbuild.api.extension import Extension
    from modelbuild.api.rule import Rule


def rules_here(folder: Path) -> Mapping[str, Rule]:
    """Return the rules of the workspace that contains a folder, by name; the built-in rules if there is no workspace.
    Raises LoadingError for a rule package that does not load."""

    try:
        root = find_root(folder)
    except UsageError:
        return load_rules(folder, ()).by_name
    workspace = load_workspace(root)
    return load_rules(root, workspace.config.rules, workspace.rule_locations()).by_name


def commands_here(folder: Path) -> Mapping[str, Command]:
    """Return the commands of the rule packages of a folder's workspace by name; if a package does not load, or outside
    of a workspace, the commands of modelbuild's own package."""

    try:
        root = find_root(folder)
        workspace = load_workspace(root)
        return load_rules(root, workspace.config.rules, workspace.rule_locations()).commands
    except ModelbuildError:
        return load_rules(folder, ()).commands


def extensions_here(folder: Path) -> Sequence[Extension]:
    """Return the extensions of the rule packages of a folder's workspace; outside of a workspace, modelbuild's own."""

    try:
        root = find_root(folder)
    except ModelbuildError:
        root = None
    rules = None
    if root is not None:
        try:
            workspace = load_workspace(root)
            rules = load_rules(root, workspace.config.rules, workspace.rule_locations())
        except ModelbuildError as error:
            click.echo(f"warning: {error}; only modelbuild's own backends describe blobs", err=True)
    rules = rules or load_rules(Path(), ())
    return [each for extensions in rules.extensions.values() for each in extensions.values()]


def no_rule(name: str, rules: Iterable[str], others: Iterable[str] = ()) -> UsageError:
    """Return the error for an unknown rule, with the nearest name among the rules and other words."""
    hint = did_you_mean(name, [*rules, *others])
    return UsageError(f"no rule '{name}'{hint or '; modelbuild help lists the rules'}")
