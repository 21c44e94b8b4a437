"""The nouns of a build: artifacts, actions and what running one yields. Frozen data, no behaviour, no I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias


@dataclass(frozen=True, slots=True, order=True)
class Digest:
    """The SHA-256 of some bytes (64 hex digits) and their count, as in the Remote Execution API."""

    hash: str
    size: int

    def __str__(self) -> str:
        return f"{self.hash}/{self.size}"


@dataclass(frozen=True, slots=True, order=True)
class FileEntry:
    """One file of an output: its contents and whether it is executable."""

    digest: Digest
    executable: bool = False


@dataclass(frozen=True, slots=True)
class Tree:
    """A folder by content: sorted (path relative to the folder, file) pairs. Empty folders do not exist."""

    files: tuple[tuple[str, FileEntry], ...]

    def under(self, subpath: str) -> Tree:
        """The part below `subpath` ('' is the whole)."""
        if not subpath:
            return self
        prefix = subpath + "/"
        return Tree(tuple((p.removeprefix(prefix), f) for p, f in self.files if p.startswith(prefix)))


# What an input or output is, by content.
Value: TypeAlias = FileEntry | Tree


@dataclass(frozen=True, slots=True, order=True)
class SourceArtifact:
    """A file of the workspace, by its path relative to the root ('/' separators)."""

    path: str


@dataclass(frozen=True, slots=True, order=True)
class DerivedArtifact:
    """An output of an action, or the part of a folder output below `subpath`."""

    action: str
    output: str
    subpath: str = ""


Artifact: TypeAlias = SourceArtifact | DerivedArtifact


@dataclass(frozen=True, slots=True)
class Input:
    """An artifact under the path at which the step finds it, and the attribute that it came from."""

    name: str
    path: str
    artifact: Artifact


@dataclass(frozen=True, slots=True)
class Output:
    """A file or folder that the step must write. `path` is relative to the action's output folder."""

    name: str
    path: str
    kind: Literal["file", "tree"] = "file"


@dataclass(frozen=True, slots=True)
class Resources:
    """What an action takes while it runs: cores, bytes of memory, GPUs. Never oversubscribed. Of these `cpu`, the
    number of threads the step gets, is part of the key: it can change the order of a sum. So is whether it takes GPUs:
    if not, it sees none. `compute_capability` ("8.9") is what they have to have; it says which worker will do."""

    cpu: int = 1
    memory: int = 512 << 20
    gpu: int = 0
    compute_capability: str = ""


@dataclass(frozen=True, slots=True)
class Telling:
    """What the failure of an action is told with, and no result depends on: files, which are not built for it, and a
    function of the problem and of what is in them that gives the text to show."""

    reads: tuple[Artifact, ...]
    words: Callable[..., str]


@dataclass(frozen=True, slots=True)
class Action:
    """A step to run on inputs to get outputs. Its id names it within one build; its key names it for all time.

    step        import name of the module whose `run(step: modelbuild.step.Step)` does the work
    plugins     import names of modules that the step loads by name; they and what they import are in the key
    params      attributes that the step reads: JSON values only, all part of the key
    unkeyed     parameters that cannot change what comes out (the address of a mirror): not part of the key
    tools       distributions whose versions decide the output's bytes
    python      names of inputs that hold Python source: the distributions that they import are tools as well
    env         environment variables that the step sees besides the fixed ones; part of the key
    preload     modules that a warm worker imports before it forks
    network     whether the step may use the network (fetching a file whose digest is pinned)
    telling     what a failure is told with; not part of the key
    """

    id: str
    owner: str
    mnemonic: str
    step: str
    inputs: tuple[Input, ...] = ()
    outputs: tuple[Output, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    unkeyed: Mapping[str, Any] = field(default_factory=dict)
    tools: tuple[str, ...] = ()
    python: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    preload: tuple[str, ...] = ()
    network: bool = False
    resources: Resources = Resources()
    description: str = ""
    telling: Telling | None = None

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules whose source, with all that it imports, is in the key."""
        return (self.step, *self.plugins)


@dataclass(frozen=True, slots=True)
class Expansion:
    """A part of the graph that is known only when `reads` is built: `then`, given an Expander and the bytes, declares
    it and returns the artifact of each promise. `room` is that of the rule (see modelbuild.api.rule.Rule); `names` are
    the paths at which steps find promises."""

    id: str
    owner: str
    reads: DerivedArtifact
    promises: tuple[str, ...]
    then: Callable[[Any, bytes], Mapping[str, Artifact]]
    room: str
    names: tuple[str, ...]

    @property
    def package(self) -> str:
        """The import name of the rule package."""
        return self.room.partition(".")[0]


@dataclass(frozen=True, slots=True)
class ActionResult:
    """What the action cache remembers of an action that succeeded. Nothing of it depends on when or where it ran,
    but `seconds` and `max_rss` (bytes), which are kept for estimates."""

    outputs: tuple[tuple[str, Value], ...]
    stdout: Digest | None = None
    stderr: Digest | None = None
    seconds: float = 0.0
    max_rss: int = 0

    def output(self, name: str) -> Value:
        for key, value in self.outputs:
            if key == name:
                return value
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class Place:
    """Where an action ran that did not run here, and seconds as the server tells them (0 where it does not): until a
    worker took it, and that worker's for getting inputs, running and sending outputs."""

    worker: str
    queued: float = 0.0
    fetching: float = 0.0
    running: float = 0.0
    sending: float = 0.0


@dataclass(frozen=True, slots=True)
class StagedInput:
    """One input of an action, ready to be laid out: a file of the workspace, or a value in the store.

    name         the input's name (what step.inputs is keyed by)
    path         where the step finds it, relative to the action's folder
    source       absolute path in the workspace (None for a derived value)
    value        its content
    """

    name: str
    path: str
    source: Path | None
    value: Value
