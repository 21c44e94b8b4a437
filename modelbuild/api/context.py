"""The context of a rule's function: attributes, providers of dependencies, and methods that declare actions."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Generic, Protocol, TypeVar

from modelbuild.actions import (
    INSTALLED,
    Action,
    Artifact,
    DerivedArtifact,
    ErrorText,
    Expansion,
    Input,
    Output,
    Resources,
    SourceArtifact,
)
from modelbuild.api.attrs import Attrs, Dep, Entry, Glob, Path, Source, references
from modelbuild.api.extension import Extension
from modelbuild.api.providers import Platform, Provider
from modelbuild.device_runners import DeviceJob
from modelbuild.errors import LoadingError, Location, did_you_mean
from modelbuild.ids import ActionId, TargetId
from modelbuild.labels import Label
from modelbuild.lines import EXPECTED, is_line
from modelbuild.paths import INPUTS, check_name, check_path

A = TypeVar("A", bound=Attrs, covariant=True)
P = TypeVar("P", bound=Provider)

Artifacts = Artifact | Sequence[Artifact]


class Graph(Protocol):
    """Receives declared actions."""

    def add_action(self, action: Action) -> None: ...

    def add_expansion(self, expansion: Expansion) -> None: ...

    def check(self, artifact: Artifact) -> None:
        """Raise ValueError for an artifact that no declaration makes, or whose path leaves its folder."""

    def basename(self, artifact: Artifact) -> str:
        """Return the file or folder name of an artifact, as its maker declared it."""


def _folder(artifact: DerivedArtifact) -> str:
    """Return the folder of the target that makes an artifact, relative to its device's folder in the output tree."""
    return artifact.action.label.replace("//", "/").replace(":", "/").strip("/")


def _check_paths(inputs: Sequence[Input], owner: TargetId) -> None:
    """Raise LoadingError if two artifacts lie at one path, which is possible only for inputs in `data`."""
    found: dict[str, Artifact] = {}
    for each in inputs:
        other = found.setdefault(each.path, each.artifact)
        if other != each.artifact:
            raise LoadingError(f"{owner} reads two files at {each.path}; expected one, with the other renamed")


class Expander:
    """Declares actions for one target."""

    def __init__(self, graph: Graph, owner: TargetId, room: str, toolchain: str = INSTALLED) -> None:
        self._graph = graph
        self._owner = owner
        self._room = room
        self._toolchain = toolchain

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
        data: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        plugins: Sequence[str] = (),
        preload: Sequence[str] = (),
        network: bool = False,
        device: DeviceJob | None = None,
        resources: Resources | None = None,
        name: str = "",
        description: str = "",
        notes: str = "",
        error_text: ErrorText | None = None,
    ) -> Mapping[str, DerivedArtifact]:
        """Declare an action; return its outputs by name.

        step       the module `<step>.py` in `steps`, next to the rule's module, or a full import name
        outputs    the files and folders that it writes: `Output("sums", "a/sums.txt")`, a path in the action's folder
        inputs     artifacts by name. The step finds a workspace file at its path, an action's output under the name in
                   its `Output`, and a part of a folder (`DerivedArtifact(action, output, "p7")`) under the input's name
        params     JSON values for the step; part of the key
        unkeyed    params that can't change the output, such as the mirror of a file with a pinned digest
        tools      distributions that decide the output; Python finds no other. Name only programs, extras
                   (`"name[extra]"`), and modules that no import statement of the step names
        python     inputs that are searched for imports
        data       inputs that a user's code reads by path: a target's output lies at PACKAGE/TARGET/NAME
        env        variables of the step's environment; part of the key
        plugins    modules that the step imports by name
        preload    modules that the worker imports once for all actions
        network    allow connections, and reading this machine's configuration for downloads
        device     the job of a part that runs on a device
        resources  the memory, processors and GPUs that it takes
        name       distinguishes actions of one target; by default the mnemonic
        description  shown while it runs
        notes      an output, a text file: each line is printed as a note, also of a cached result
        error_text  files that only an error message needs, such as a source that no step reads

        Raises TypeError or ValueError for values that a key cannot contain, an input that is not an artifact, an
        unknown name in `python`, `data`, `notes` or `device`, and a name or description of several lines; LoadingError
        for two inputs at one path.
        """
        for text in (mnemonic, name, description):
            if not is_line(text):
                raise ValueError(f"{text!r} names an action; {EXPECTED}")
        json.dumps([params or {}, unkeyed or {}], allow_nan=False)
        for which, names in (("python", python), ("data", data)):
            if unknown := sorted(set(names) - set(inputs or {})):
                raise ValueError(f"{which} names the input '{unknown[0]}', which the action does not have")
        if notes and notes not in {output.name for output in outputs}:
            raise ValueError(f"notes names the output '{notes}', which the action does not have")
        if device is not None and not {device.plan, *device.inputs} <= set(inputs or {}):
            raise ValueError("device names an input that the action does not have")
        identifier = ActionId.of(self._owner, name or mnemonic)
        laid_out = tuple(self._lay_out(inputs or {}, data))
        if data:
            _check_paths(laid_out, self._owner)
        action = Action(
            id=identifier,
            owner=self._owner,
            mnemonic=mnemonic,
            step=step if "." in step else f"{self._room}.steps.{step}",
            plugins=tuple(sorted(set(plugins))),
            inputs=laid_out,
            outputs=tuple(outputs),
            params=dict(params or {}),
            unkeyed=dict(unkeyed or {}),
            tools=tuple(dict.fromkeys(tools)),
            python=tuple(python),
            env=tuple(sorted((env or {}).items())),
            preload=tuple(preload),
            network=network,
            toolchain=self._toolchain,
            device=device,
            resources=resources or Resources(),
            description=description,
            notes=notes,
            error_text=error_text,
        )
        self._graph.add_action(action)
        return {output.name: DerivedArtifact(identifier, output.name) for output in outputs}

    def _lay_out(self, inputs: Mapping[str, Artifacts], data: Collection[str]) -> Iterable[Input]:
        """Yield the path of each input: a workspace file at its own path, a derived artifact under `.inputs/`, or if
        the input is in `data` below its target's."""
        for name, given in inputs.items():
            check_name(name)
            artifacts = [given] if isinstance(given, (SourceArtifact, DerivedArtifact)) else given
            for index, artifact in enumerate(artifacts):
                if not isinstance(artifact, (SourceArtifact, DerivedArtifact)):
                    raise TypeError(f"input '{name}' has {artifact!r}; expected artifacts, as ctx.files() gives them")
                self._graph.check(artifact)
                if isinstance(artifact, SourceArtifact):
                    yield Input(name, artifact.path, artifact)
                elif name in data:
                    yield Input(name, check_path(f"{_folder(artifact)}/{self._graph.basename(artifact)}"), artifact)
                else:
                    path = f"{INPUTS}/{name}.{index}/{self._name(name, artifact)}"
                    yield Input(name, check_path(path), artifact)

    def _name(self, name: str, artifact: DerivedArtifact) -> str:
        """Return the name under which a step reads a derived artifact. For a part of a folder it is the input's name
        with the part's suffix: the part's own name is its position among others, and must not be in a key."""
        if artifact.subpath:
            return name + PurePosixPath(artifact.subpath).suffix
        return self._graph.basename(artifact)

    def expand(
        self,
        *,
        reads: DerivedArtifact | Sequence[DerivedArtifact],
        promises: Sequence[str | Output],
        then: Callable[..., Mapping[str, Artifact]],
        name: str = "expand",
    ) -> Mapping[str, DerivedArtifact]:
        """Promise artifacts of actions that can only be declared once the files `reads` are built. `then` gets an
        Expander and the bytes of each file, and returns the artifact of each promise.

        A promise is an Output if steps should read it under another name.
        """
        identifier = ActionId.of(self._owner, name)
        outputs = [each if isinstance(each, Output) else Output(each, each) for each in promises]
        names, paths = tuple(each.name for each in outputs), tuple(each.path for each in outputs)
        read = (reads,) if isinstance(reads, DerivedArtifact) else tuple(reads)
        expansion = Expansion(identifier, self._owner, read, names, then, self._room, paths, self._toolchain)
        self._graph.add_expansion(expansion)
        return {name: DerivedArtifact(identifier, name) for name in names}


@dataclass(frozen=True, slots=True)
class Declaration(Generic[A]):
    """A target's declaration, in one configuration.

    id          the id of the target
    room        the Python package of its rule
    toolchain   the name of the toolchain that its actions run in
    device      the device that it is configured for; None if the device makes no difference to it
    locate      returns the place of an attribute
    test_filter  the expression of --test-filter; '' without
    """

    id: TargetId
    label: Label
    room: str
    toolchain: str
    attrs: A
    device: Label | None
    locate: Callable[[Path], Location]
    test_filter: str = ""


@dataclass(frozen=True, slots=True)
class Resolved:
    """The objects that a target's attributes refer to.

    files       files of each reference
    providers   providers of each dependency
    rules       name of each dependency's rule
    platform    returns the platform of a device
    extensions  extensions by point and name
    """

    files: Mapping[Source | Entry | Glob, tuple[Artifact, ...]]
    providers: Mapping[str, tuple[Provider, ...]]
    rules: Mapping[str, str]
    platform: Callable[[Label], Platform]
    extensions: Mapping[str, Mapping[str, Extension]]


class Context(Expander, Generic[A]):
    """One target, in one configuration, as its rule sees it.

    label         the target's label
    attrs         its attributes, an instance of the rule's schema
    device_label  the device that the target is built for; None if it makes no difference
    test_filter   for rules of tests: the cases to run (--test-filter); '' for all. A rule that interprets it has it in
                  its actions' parameters, and sets `filters` of TestAction
    """

    def __init__(self, graph: Graph, declaration: Declaration[A], resolved: Resolved) -> None:
        super().__init__(graph, declaration.id, declaration.room, declaration.toolchain)
        self.label = declaration.label
        self.attrs = declaration.attrs
        self.device_label = declaration.device
        self.test_filter = declaration.test_filter
        self._locate = declaration.locate
        self._resolved = resolved

    def extension(self, point: str, name: str) -> Extension:
        """Return the extension of a point by its name, a table's `type`. Raises KeyError for an unknown name."""
        return self._resolved.extensions[point][name]

    def extensions(self, point: str) -> tuple[Extension, ...]:
        """Return the extensions of a point, sorted by name."""
        return tuple(each for _, each in sorted(self._resolved.extensions.get(point, {}).items()))

    def error(self, path: str | Path, message: str) -> LoadingError:
        """Return an error at an attribute (`"inputs"`, or `("inputs", 0, "shape")` inside it), for the rule to raise.
        Raises ValueError for an unknown attribute."""
        keys = (path,) if isinstance(path, str) else path
        if keys and keys[0] not in (known := ["name", *type(self.attrs).model_fields]):
            raise ValueError(f"the rule has no attribute '{keys[0]}'{did_you_mean(str(keys[0]), known)}")
        return LoadingError(message, self._locate(keys))

    def files(self, *references: Source | Entry | Glob | Iterable[Source | Entry]) -> tuple[Artifact, ...]:
        """Return the files of references, or of lists of them, in order, each once."""
        lists = [[each] if isinstance(each, (Source, Entry, Glob)) else each for each in references]
        return tuple(dict.fromkeys(a for each in lists for r in each for a in self._resolved.files[r]))

    def entry(self, reference: Entry) -> str:
        """Return a function or class as `path/in/workspace.py:name`."""
        return f"{self.label.package}/{reference}".lstrip("/")

    def file(self, reference: Source) -> Artifact:
        """Return the only file of a reference. Raises LoadingError for no file or several."""
        found = self._resolved.files[reference]
        if len(found) != 1:
            message = f"'{reference}' gives {len(found)} files; expected one"
            raise LoadingError(message, self._location(reference))
        return found[0]

    def provider(self, dep: Dep, kind: type[P]) -> P:
        """Return a dependency's provider of a kind. Raises LoadingError if it has none."""
        for provider in self._resolved.providers[dep]:
            if isinstance(provider, kind):
                return provider
        made_by = " or ".join(kind.made_by)
        wanted = f"; expected a target of {made_by}" if made_by else f", which provides no {kind.__name__}"
        phrase = next((each.phrase for each in self._resolved.providers[dep] if each.phrase), "")
        found = phrase or f"a {self._resolved.rules[dep]}"
        raise LoadingError(f"'{dep}' is {found}{wanted}", self._location(dep))

    def _location(self, reference: Source | Dep) -> Location:
        """Return the place of this very reference: another attribute may have the same text."""
        return self._locate(next((path for path, each in references(self.attrs) if each is reference), ()))

    def providers(self, dep: Dep) -> tuple[Provider, ...]:
        """Return all providers of a dependency."""
        return self._resolved.providers[dep]

    def device(self, kind: type[P]) -> P:
        """Return the target's device. Raises LoadingError if it has none."""
        if self.device_label is None:
            message = (
                f"no device for {self.label}: expected the attribute 'device', --device, or default_device in "
                "MODELBUILD.toml"
            )
            raise LoadingError(message, self._locate(()))
        platform = self._resolved.platform(self.device_label)
        if not isinstance(platform, kind):
            raise LoadingError(f"device {self.device_label} has no {kind.__name__}", self._locate(("device",)))
        return platform
