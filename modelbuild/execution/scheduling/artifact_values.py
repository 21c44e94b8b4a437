"""The contents of a build's artifacts that exist so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from modelbuild.action_graph import reads
from modelbuild.actions import (
    Action,
    ActionResult,
    Artifact,
    DerivedArtifact,
    FileEntry,
    SourceArtifact,
    StagedInput,
    Tree,
    Value,
)
from modelbuild.errors import BuildError


class Values:
    """Values by artifact; grows during the build. `source` returns a workspace file's absolute path and content."""

    def __init__(self, source: Callable[[str], tuple[Path, FileEntry]]) -> None:
        self.source = source
        self._values: dict[tuple[str, str], Value] = {}
        self._promised: dict[tuple[str, str], Artifact] = {}

    def made(self, action: str, result: ActionResult) -> None:
        """Add the outputs of an action."""
        self._values.update({(action, name): value for name, value in result.outputs})

    def promised(self, expansion: str, made: Mapping[str, Artifact]) -> None:
        """Add the artifacts that fulfil an expansion's promises."""
        self._promised.update({(expansion, promise): artifact for promise, artifact in made.items()})

    def resolve(self, artifact: Artifact) -> Artifact:
        """Return the artifact that fulfils a promise; any other artifact unchanged."""
        while isinstance(artifact, DerivedArtifact) and (artifact.action, artifact.output) in self._promised:
            target = self._promised[artifact.action, artifact.output]
            if artifact.subpath and isinstance(target, DerivedArtifact):
                subpath = f"{target.subpath}/{artifact.subpath}" if target.subpath else artifact.subpath
                target = DerivedArtifact(target.action, target.output, subpath)
            artifact = target
        return artifact

    def has(self, artifact: Artifact) -> bool:
        """Return whether an artifact has been made, or is a file of the workspace."""
        artifact = self.resolve(artifact)
        return isinstance(artifact, SourceArtifact) or (artifact.action, artifact.output) in self._values

    def value(self, artifact: Artifact) -> Value:
        """Return the content of a made artifact, or of a file of the workspace. Raises KeyError if it is not made yet,
        and BuildError for a part that is not in the folder."""
        artifact = self.resolve(artifact)
        if isinstance(artifact, SourceArtifact):
            return self.source(artifact.path)[1]
        value = self._values[artifact.action, artifact.output]
        if not artifact.subpath:
            return value
        if isinstance(value, Tree):
            below = value.under(artifact.subpath)
            if below.files:
                return below
            file = dict(value.files).get(artifact.subpath)
            if file is not None:
                return file
        what = "is a file" if isinstance(value, FileEntry) else f"has no '{artifact.subpath}'"
        raise BuildError(f"output '{artifact.output}' of {artifact.action} {what}; expected '{artifact.subpath}' in it")

    def staged(self, action: Action) -> tuple[StagedInput, ...]:
        """Return an action's inputs. Raises as value()."""
        staged = []
        for item in action.inputs:
            artifact = self.resolve(item.artifact)
            if isinstance(artifact, SourceArtifact):
                staged.append(StagedInput(item.name, item.path, *self.source(artifact.path)))
            else:
                staged.append(StagedInput(item.name, item.path, None, self.value(artifact)))
        return tuple(staged)

    def makers(self, action: Action) -> tuple[str, ...]:
        """Return the actions that made an action's inputs."""
        made = (self.resolve(artifact) for artifact in reads(action))
        return tuple(sorted({artifact.action for artifact in made if isinstance(artifact, DerivedArtifact)}))
