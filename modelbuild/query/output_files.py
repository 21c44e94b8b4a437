"""The outputs of targets in the output tree, by the names that are known before they are built."""

from __future__ import annotations

from collections.abc import Collection

from modelbuild.query.configured_world import ConfiguredWorld
from modelbuild.session.dry_run import dry_run
from modelbuild.session.plan import config_name
from modelbuild.workspace.workspace import OUTPUT_FOLDER


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
