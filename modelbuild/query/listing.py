"""Lists of targets and files for --output: places, source files, outputs, and statements as evaluated."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from modelbuild.loading.package import Target
from modelbuild.loading.select import resolve_selects
from modelbuild.query.configured_world import ConfiguredWorld
from modelbuild.query.package_world import file_location
from modelbuild.query.target_world import TargetWorld
from modelbuild.query.world import SOURCE, World
from modelbuild.session.dry_run import dry_run
from modelbuild.session.plan import config_name
from modelbuild.workspace.toml_format import format_toml
from modelbuild.workspace.toml_values import toml_table
from modelbuild.workspace.workspace import OUTPUT_FOLDER


def locations(world: World, nodes: Collection[str]) -> list[str]:
    """Return `models/BUILD.toml:4:1: pte_program rule //models:detector` for each node; for a source file, its first
    position."""
    return [f"{_place(world, node)}: {world.kind(node)} {node}" for node in sorted(nodes)]


def _place(world: World, node: str) -> str:
    return f"{file_location(node)}:1:1" if world.kind(node) == SOURCE else world.location(node)


def source_files(world: World, nodes: Collection[str]) -> list[str]:
    """Return the paths of the source files among nodes, and of the source files that targets among nodes name."""
    files = {node for node in nodes if world.kind(node) == SOURCE}
    files.update(needed for node in nodes for needed in world.needs(node) if world.kind(needed) == SOURCE)
    return sorted(map(file_location, files))


def declared_statements(world: TargetWorld, nodes: Collection[str]) -> list[str]:
    """Return the targets among nodes as TOML, each with its place as a comment: every target of a matrix separately,
    selects as written. A package's statements are a BUILD.toml that declares the same targets."""
    targets = [target for node in sorted(nodes) if (target := world.packages.target(node)) is not None]
    return [_statement(target, target.attributes) for target in targets]


def configured_statements(world: ConfiguredWorld, nodes: Collection[str]) -> list[str]:
    """Return the targets among nodes as declared_statements() does, with selects resolved for their devices."""
    configured = [target for node in sorted(nodes) if (target := world.configured(node)) is not None]
    declared = [(world.analyzer.loader.target(each.node.label), each.device) for each in configured]
    return [_statement(target, resolve_selects(target, device).attributes) for target, device in declared]


def _statement(target: Target, attributes: Mapping[str, Any]) -> str:
    values: dict[str, Any] = {"name": target.label.name, **attributes, "visibility": target.visibility}
    if target.tags:
        values["tags"] = target.tags
    if target.toolchain:
        values["toolchain"] = target.toolchain
    if target.action_timeout is not None:
        values["action_timeout"] = f"{target.action_timeout:.15g} s"
    return f"# {target.location()}\n{format_toml(toml_table(target.rule, values))}"


def output_files(world: ConfiguredWorld, nodes: Collection[str]) -> tuple[list[str], list[str]]:
    """Return the paths of the targets' outputs, relative to the workspace, and the nodes with unknown outputs, which
    actions that are not in the cache decide."""
    targets = {node: target for node in sorted(nodes) if (target := world.configured(node)) is not None}
    dry = dry_run(world.analyzer, [artifact for target in targets.values() for artifact in target.files()])
    graph = world.analyzer.graph
    paths: dict[str, None] = {}
    unknown: dict[str, None] = {}
    for node, target in targets.items():
        label = target.node.label
        folder = "/".join(part for part in (config_name(target.device), label.package, label.name) if part)
        for artifact in map(dry.scheduler.values.resolve, target.files()):
            if graph.is_promise(artifact):
                unknown[node] = None
            else:
                paths[f"{OUTPUT_FOLDER}/{folder}/{graph.basename(artifact)}"] = None
    return list(paths), list(unknown)
