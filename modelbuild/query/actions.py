"""The result of `aquery`: the actions of targets, with their known keys."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from modelbuild.action_graph import reads
from modelbuild.actions import Action, Artifact, DerivedArtifact
from modelbuild.query.configured_world import ConfiguredWorld
from modelbuild.redaction import redacted
from modelbuild.session.dry_run import DryRun, dry_run


class Actions:
    """The actions that targets own, by id. Looked up once."""

    def __init__(self, world: ConfiguredWorld, nodes: Collection[str]) -> None:
        targets = [target for node in sorted(nodes) if (target := world.configured(node)) is not None]
        self._graph = world.analyzer.graph
        owners = {target.id for target in targets}
        wanted = [
            DerivedArtifact(node.id, output.name)
            for node in list(self._graph.nodes.values())
            if isinstance(node, Action) and node.owner in owners
            for output in node.outputs[:1]
        ]
        promised = [
            DerivedArtifact(node.id, node.promises[0])
            for node in list(self._graph.nodes.values())
            if not isinstance(node, Action) and node.owner in owners and node.promises
        ]
        self._dry: DryRun = dry_run(world.analyzer, [*wanted, *promised])
        self.by_id: dict[str, Action] = {
            node.id: node for node in self._graph.nodes.values() if isinstance(node, Action) and node.owner in owners
        }

    def needs(self, action: str) -> Collection[str]:
        """Return the actions that make an action's inputs."""
        return {made for made, _ in self._makers(self.by_id[action])}

    def _makers(self, action: Action) -> Iterator[tuple[str, DerivedArtifact]]:
        for artifact in reads(action):
            resolved = self._dry.scheduler.values.resolve(artifact)
            if isinstance(resolved, DerivedArtifact):
                yield resolved.action, resolved

    def describe(self, name: str) -> Mapping[str, Any]:
        """Return everything that decides an action, as JSON values. `key` is null if an input is not built yet."""
        action = self.by_id[name]
        material = self._dry.report.materials.get(name)
        digests = {(input_, path): digest for input_, path, digest in material["inputs"]} if material else {}
        return {
            "id": name,
            "owner": action.owner,
            "mnemonic": action.mnemonic,
            "key": self._dry.report.keys.get(name),
            "cached": name in self._dry.report.statuses,
            "step": action.step,
            "code": material["code"] if material else None,
            "params": redacted(dict(action.params)),
            "inputs": [
                {
                    "name": item.name,
                    "path": item.path,
                    "from": self._from(item.artifact),
                    "digest": digests.get((item.name, item.path)),
                }
                for item in action.inputs
            ],
            "outputs": [{"name": o.name, "path": o.path, "kind": o.kind} for o in action.outputs],
            "tools": (material and material["tools"]) or dict.fromkeys(action.tools),
            "env": redacted(dict(action.env)),
            "cpu": action.resources.cpu,
        }

    def _from(self, artifact: Artifact) -> str:
        resolved = self._dry.scheduler.values.resolve(artifact)
        if not isinstance(resolved, DerivedArtifact):
            return resolved.path
        return f"{resolved.action}:{resolved.output}" + (f"/{resolved.subpath}" if resolved.subpath else "")


def as_lines(described: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a described action."""
    yield f"{described['mnemonic']} {described['owner']}"
    yield f"  id       {described['id']}"
    state = "in the cache" if described["cached"] else "not in the cache"
    yield (
        f"  key      {described['key']} ({state})"
        if described["key"]
        else "  key      unknown until its inputs are built"
    )
    yield f"  step     {described['step']}"
    for heading, values in (
        ("params", [f"{name} = {value!r}" for name, value in described["params"].items()]),
        ("inputs", [f"{each['name']}: {each['from']} {(each['digest'] or '')[:12]}" for each in described["inputs"]]),
        ("outputs", [f"{each['name']}: {each['path']} ({each['kind']})" for each in described["outputs"]]),
        ("tools", [f"{name} {version or ''}" for name, version in described["tools"].items()]),
        ("env", [f"{name}={value}" for name, value in described["env"].items()]),
    ):
        for index, value in enumerate(values):
            yield f"  {heading if index == 0 else '':8} {value}".rstrip()
