"""What targets declared: by the rules that have just been called, or written down and read again.

Written down, a target's actions need neither BUILD files nor rules. Not all can be: what is declared only when
something else is built, and the words that a failure is told in, are a rule's functions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modelbuild.action_graph import ActionGraph
from modelbuild.actions import Action, Artifact, DerivedArtifact, Expansion, Input, Output, Resources, SourceArtifact
from modelbuild.errors import Location
from modelbuild.labels import Label

if TYPE_CHECKING:
    from modelbuild.building.reads import Reads
    from modelbuild.building.snapshot import Seen


@dataclass(frozen=True, slots=True)
class Wanted:
    """A target to build in a configuration, the files that it gives, and where it is declared. `inputs`: names of what
    it takes when it is run, where they are known."""

    label: Label
    config: str
    files: tuple[Artifact, ...]
    where: Callable[[], Location] | None = None
    inputs: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What is known of a target before anything is built: the files that it gives, and what it takes when it is run.
    None is what is not."""

    label: str
    files: tuple[str, ...] | None
    inputs: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Declared:
    """All that a build has to know of targets and rules.

    packages    the folder of each rule package, by import name
    attributes  what each target is (see modelbuild.explain.facts), of those that may have become another
    reads       what targets read, given the ids of actions that were needed; adds what decided the graph to what the
                build has seen. None: as it is written down
    """

    graph: ActionGraph
    targets: tuple[Wanted, ...]
    packages: Mapping[str, Path]
    attributes: Mapping[str, Mapping[str, Any]]
    reads: Callable[[Iterable[str], Seen], Reads] | None = None

    def foreseen(self) -> list[Foreseen]:
        return [Foreseen(str(target.label), self._names(target), target.inputs) for target in self.targets]

    def _names(self, target: Wanted) -> tuple[str, ...] | None:
        """Of a target's files; None when an expansion gives one of them."""
        if any(map(self.graph.is_promise, target.files)):
            return None
        return tuple(map(self.graph.basename, target.files))


def encode(nodes: Iterable[Action | Expansion], files: Mapping[str, tuple[Artifact, ...]]) -> str | None:
    """A target's actions, and its files by configuration, as one line of JSON. None when that cannot be."""
    rows = []
    for node in nodes:
        if isinstance(node, Expansion) or node.telling is not None:
            return None
        rows.append(_row(node))
    given = {config: [_encoded(artifact) for artifact in found] for config, found in files.items()}
    return json.dumps([rows, given], separators=(",", ":"), default=dict)


def decode(line: str) -> tuple[list[Action], dict[str, tuple[Artifact, ...]]]:
    """What was given to encode()."""
    rows, files = json.loads(line)
    given = {config: tuple(_decoded(artifact) for artifact in found) for config, found in files.items()}
    return [_action(row) for row in rows], given


def _row(action: Action) -> list[Any]:
    return [
        *(action.id, action.owner, action.mnemonic, action.step),
        [[i.name, i.path, _encoded(i.artifact)] for i in action.inputs],
        [[o.name, o.path, o.kind] for o in action.outputs],
        *(
            action.params,
            action.unkeyed,
            action.tools,
            action.python,
            action.plugins,
            action.env,
            action.preload,
            action.network,
        ),
        astuple(action.resources),
        action.description,
    ]


def _action(row: list[Any]) -> Action:
    id_, owner, mnemonic, step, inputs, outputs, params, unkeyed, *rest = row
    tools, python, plugins, env, preload, network, resources, description = rest
    return Action(
        *(id_, owner, mnemonic, step),
        tuple(Input(name, path, _decoded(artifact)) for name, path, artifact in inputs),
        tuple(Output(*output) for output in outputs),
        params,
        unkeyed,
        *(tuple(tools), tuple(python), tuple(plugins)),
        tuple((name, value) for name, value in env),
        tuple(preload),
        network,
        Resources(*resources),
        description,
    )


def _encoded(artifact: Artifact) -> Any:
    if isinstance(artifact, SourceArtifact):
        return artifact.path
    return [artifact.action, artifact.output, artifact.subpath]


def _decoded(artifact: Any) -> Artifact:
    return SourceArtifact(artifact) if isinstance(artifact, str) else DerivedArtifact(*artifact)
