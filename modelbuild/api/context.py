"""What a rule's function gets: its target's attributes, its dependencies' providers, and ways to declare actions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Generic, Protocol, TypeVar

from modelbuild.actions import (
    Action,
    Artifact,
    DerivedArtifact,
    Expansion,
    Input,
    Output,
    Resources,
    SourceArtifact,
    Telling,
)
from modelbuild.api.attrs import Attrs, Dep, Glob, Path, Source
from modelbuild.api.extension import Extension
from modelbuild.api.providers import Platform, Provider
from modelbuild.errors import LoadingError, Location
from modelbuild.labels import Label
from modelbuild.lines import EXPECTED, is_line
from modelbuild.paths import INPUTS, check_name, check_path

A = TypeVar("A", bound=Attrs, covariant=True)
P = TypeVar("P", bound=Provider)

Artifacts = Artifact | Sequence[Artifact]


class Graph(Protocol):
    """Where declared actions go."""

    def add_action(self, action: Action) -> None: ...

    def add_expansion(self, expansion: Expansion) -> None: ...

    def check(self, artifact: Artifact) -> None:
        """Raises ValueError for an artifact that nothing declared makes, or whose path leaves its folder."""

    def basename(self, artifact: Artifact) -> str:
        """The name of the file or folder that an artifact is, as its maker declared it."""


class Expander:
    """Declares actions on behalf of one target."""

    def __init__(self, graph: Graph, owner: str, room: str) -> None:
        self._graph = graph
        self._owner = owner
        self._room = room

    def action(
        self,
        mnemonic: str,
        *,
        step: str,
        outputs: Sequence[Output],
        inputs: Mapping[str, Artifacts] | None = None,
        params: Mapping[str, Any] | None = None,
        unkeyed: Mapping[str, Any] | None = None,
        tools: Sequence[str] = (),
        python: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        plugins: Sequence[str] = (),
        preload: Sequence[str] = (),
        network: bool = False,
        resources: Resources | None = None,
        name: str = "",
        description: str = "",
        telling: Telling | None = None,
    ) -> Mapping[str, DerivedArtifact]:
        """Declare an action that runs the module `<step>.py` in the folder `steps` beside the rule's module; see
        `modelbuild.actions.Action`. A step of another folder is named by its whole import name.

        `name` tells actions of one target apart (default: the mnemonic). Returns its outputs by name. Raises TypeError
        or ValueError for what can be no part of a key, for an input that is no artifact, and for a name or description
        that is not one line.
        """
        for text in (mnemonic, name, description):
            if not is_line(text):
                raise ValueError(f"{text!r} names an action; {EXPECTED}")
        json.dumps([params or {}, unkeyed or {}], allow_nan=False)
        unknown = sorted(set(python) - set(inputs or {}))
        if unknown:
            raise ValueError(f"python names the input '{unknown[0]}', which the action does not have")
        identifier = f"{self._owner}#{name or mnemonic}"
        action = Action(
            id=identifier,
            owner=self._owner,
            mnemonic=mnemonic,
            step=step if "." in step else f"{self._room}.steps.{step}",
            plugins=tuple(sorted(set(plugins))),
            inputs=tuple(self._lay_out(inputs or {})),
            outputs=tuple(outputs),
            params=dict(params or {}),
            unkeyed=dict(unkeyed or {}),
            tools=tuple(sorted(set(tools))),
            python=tuple(python),
            env=tuple(sorted((env or {}).items())),
            preload=tuple(preload),
            network=network,
            resources=resources or Resources(),
            description=description,
            telling=telling,
        )
        self._graph.add_action(action)
        return {output.name: DerivedArtifact(identifier, output.name) for output in outputs}

    def _lay_out(self, inputs: Mapping[str, Artifacts]) -> Iterable[Input]:
        """Say where a step finds each input: a workspace file at its own path, a derived one under `.inputs/`."""
        for name, given in inputs.items():
            check_name(name)
            artifacts = [given] if isinstance(given, (SourceArtifact, DerivedArtifact)) else given
            for index, artifact in enumerate(artifacts):
                if not isinstance(artifact, (SourceArtifact, DerivedArtifact)):
                    raise TypeError(f"input '{name}' has {artifact!r}; expected artifacts, as ctx.files() gives them")
                self._graph.check(artifact)
                if isinstance(artifact, SourceArtifact):
                    yield Input(name, artifact.path, artifact)
                else:
                    path = f"{INPUTS}/{name}.{index}/{self._name(name, artifact)}"
                    yield Input(name, check_path(path), artifact)

    def _name(self, name: str, artifact: DerivedArtifact) -> str:
        """What a step finds a derived input as. What a part of a folder is called there says which of several it is,
        and is no part of a key: of its name only the suffix is left."""
        if artifact.subpath:
            return name + PurePosixPath(artifact.subpath).suffix
        return self._graph.basename(artifact)

    def expand(
        self,
        *,
        reads: DerivedArtifact,
        promises: Sequence[str | Output],
        then: Callable[[Expander, bytes], Mapping[str, Artifact]],
        name: str = "expand",
    ) -> Mapping[str, DerivedArtifact]:
        """Promise artifacts of actions that can only be declared once the file `reads` is built.

        A promise is an Output where steps that read it are to find it under another name than its own.
        """
        identifier = f"{self._owner}#{name}"
        outputs = [each if isinstance(each, Output) else Output(each, each) for each in promises]
        names, paths = tuple(each.name for each in outputs), tuple(each.path for each in outputs)
        self._graph.add_expansion(Expansion(identifier, self._owner, reads, names, then, self._room, paths))
        return {name: DerivedArtifact(identifier, name) for name in names}


@dataclass(frozen=True, slots=True)
class Resolved:
    """A target's references, resolved, and where each stands (by type too: a Source and a Dep may read the same)."""

    files: Mapping[Source | Glob, tuple[Artifact, ...]] = field(default_factory=dict)
    providers: Mapping[str, tuple[Provider, ...]] = field(default_factory=dict)
    targets: Mapping[str, str] = field(default_factory=dict)
    paths: Mapping[tuple[type, Source | Dep | Glob], Path] = field(default_factory=dict)


class Context(Expander, Generic[A]):
    """One target, in one configuration, being analysed by its rule."""

    def __init__(
        self,
        graph: Graph,
        owner: str,
        room: str,
        label: Label,
        attrs: A,
        resolved: Resolved,
        device_label: Label | None,
        platform: Callable[[Label], Platform],
        locate: Callable[[Path], Location],
        extensions: Mapping[str, Mapping[str, Extension]],
    ) -> None:
        super().__init__(graph, owner, room)
        self.label = label
        self.attrs = attrs
        self.device_label = device_label
        """The device this target is configured for; None where no device decides anything of it."""
        self._resolved = resolved
        self._platform = platform
        self._locate = locate
        self._extensions = extensions

    def extension(self, point: str, name: str) -> Extension:
        """Return the extension of a point that a table names by its `type`. Raises KeyError when there is none."""
        return self._extensions[point][name]

    def error(self, path: str | Path, message: str) -> LoadingError:
        """An error at an attribute (`"inputs"`, or `("inputs", 0, "shape")` inside one), for the rule to raise."""
        return LoadingError(message, self._locate((path,) if isinstance(path, str) else path))

    def files(self, reference: Source | Glob | Iterable[Source]) -> tuple[Artifact, ...]:
        """The files that references stand for, in order, each once."""
        references = [reference] if isinstance(reference, (Source, Glob)) else list(reference)
        return tuple(dict.fromkeys(a for r in references for a in self._resolved.files[r]))

    def file(self, reference: Source) -> Artifact:
        """The one file that a reference stands for. Raises LoadingError when it is none or several."""
        found = self._resolved.files[reference]
        if len(found) != 1:
            message = f"'{reference}' gives {len(found)} files; expected one"
            raise LoadingError(message, self._locate(self._resolved.paths[type(reference), reference]))
        return found[0]

    def provider(self, dep: Dep, kind: type[P]) -> P:
        """What a dependency provides of a kind. Raises LoadingError when the target is of the wrong kind."""
        for provider in self._resolved.providers[dep]:
            if isinstance(provider, kind):
                return provider
        message = f"'{dep}' is a {self._resolved.targets[dep]}, which gives no {kind.__name__}"
        raise LoadingError(message, self._locate(self._resolved.paths[Dep, dep]))

    def providers(self, dep: Dep) -> tuple[Provider, ...]:
        """All that a dependency provides."""
        return self._resolved.providers[dep]

    def device(self, kind: type[P]) -> P:
        """The device this target is configured for. Raises LoadingError when there is none."""
        if self.device_label is None:
            message = (
                f"no device for {self.label}: expected the attribute 'device', --device, or default_device in "
                "MODELBUILD.toml"
            )
            raise LoadingError(message, self._locate(()))
        platform = self._platform(self.device_label)
        if not isinstance(platform, kind):
            raise LoadingError(f"device {self.device_label} gives no {kind.__name__}", self._locate(("device",)))
        return platform
