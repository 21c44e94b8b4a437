"""The data types of a build: artifacts, actions and results. Frozen data, no behaviour, no I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

from modelbuild.device_runners import DeviceJob
from modelbuild.ids import ActionId, TargetId

# The name of a toolchain that stands for the Python that modelbuild runs in.
INSTALLED = "installed"


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
        """Return the part below `subpath`; '' returns the whole tree."""
        if not subpath:
            return self
        prefix = subpath + "/"
        return Tree(tuple((p.removeprefix(prefix), f) for p, f in self.files if p.startswith(prefix)))


# The content of an input or output.
Value: TypeAlias = FileEntry | Tree


@dataclass(frozen=True, slots=True, order=True)
class SourceArtifact:
    """A file of the workspace, by path relative to the root, with '/' separators."""

    path: str


@dataclass(frozen=True, slots=True, order=True)
class DerivedArtifact:
    """An output of an action, or of a folder the part below `subpath`."""

    action: ActionId
    output: str
    subpath: str = ""


Artifact: TypeAlias = SourceArtifact | DerivedArtifact


@dataclass(frozen=True, slots=True)
class Input:
    """An artifact, the path where the step reads it, and the name of its input."""

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
    """The cores, bytes of memory and GPUs that an action uses; never oversubscribed. `cpu`, the step's number of
    threads, is part of the key because it can change the order of a sum. The key also states whether the action uses
    GPUs: without them, it sees none. `compute_capability` ("8.9") is a requirement on the GPUs of workers."""

    cpu: int = 1
    memory: int = 512 << 20
    gpu: int = 0
    compute_capability: str = ""


@dataclass(frozen=True, slots=True)
class ErrorText:
    """Files and a function used only to format an action's error message. No file is built for it; the function takes
    the problem and the contents, and returns the text to print."""

    reads: tuple[Artifact, ...]
    format: Callable[..., str]


@dataclass(frozen=True, slots=True)
class Action:
    """A step to run on inputs to get outputs. Its id is unique within one build; its key identifies it across builds.

    step        import name of the module whose `run(step: modelbuild.step.Step)` does the work
    plugins     import names of modules that the step loads by name; the key contains them and the modules they import
    params      attributes that the step reads: JSON values only, all part of the key
    unkeyed     parameters that cannot change the outputs (the address of a mirror); not part of the key
    tools       distributions whose versions decide the output's bytes
    python      names of inputs that are Python source: the distributions that they import are also tools
    env         environment variables for the step, in addition to the fixed variables; part of the key
    preload     modules that the server process imports before it forks workers; those of rule packages are plugins too
    network     whether the step may use the network (fetching a file whose digest is pinned)
    toolchain   the name of the toolchain that the step runs in; its contents are part of the key, its name is not
    device      the part of the action that runs on a device before the step; the key contains the device's identity
    notes       name of an output: a text file whose lines are printed when the action has succeeded
    error_text  formats the action's error message and notes; not part of the key
    """

    id: ActionId
    owner: TargetId
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
    toolchain: str = INSTALLED
    device: DeviceJob | None = None
    resources: Resources = Resources()
    description: str = ""
    notes: str = ""
    error_text: ErrorText | None = None

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules whose source closure is part of the key."""
        return (self.step, *self.plugins)


@dataclass(frozen=True, slots=True)
class Expansion:
    """A part of the graph that is known only after the files `reads` are built. `then` takes an Expander and the bytes
    of each file. It declares the part, and returns the artifact of each promise. `room` is the room of the rule (see
    modelbuild.api.rule.Rule); `names` are the paths at which steps read the promised artifacts."""

    id: ActionId
    owner: TargetId
    reads: tuple[DerivedArtifact, ...]
    promises: tuple[str, ...]
    then: Callable[..., Mapping[str, Artifact]]
    room: str
    names: tuple[str, ...]
    toolchain: str = INSTALLED

    @property
    def package(self) -> str:
        """The import name of the rule package."""
        return self.room.partition(".")[0]


@dataclass(frozen=True, slots=True)
class ActionResult:
    """The action cache's entry for an action that succeeded. Nothing in it depends on when or where the action ran,
    except `seconds` and `max_rss` (bytes), which are used for estimates."""

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
    """The remote worker that ran an action, and durations in seconds as the server reports them (0 if it reports none):
    waiting for a worker, fetching inputs, running, and sending outputs."""

    worker: str
    queued: float = 0.0
    fetching: float = 0.0
    running: float = 0.0
    sending: float = 0.0


@dataclass(frozen=True, slots=True)
class StagedInput:
    """One input of an action, ready to be laid out: a file of the workspace, or a value in the store.

    name         the input's name (the key in step.inputs)
    path         where the step reads it, relative to the action's folder
    source       absolute path in the workspace (None for a derived value)
    value        its content
    """

    name: str
    path: str
    source: Path | None
    value: Value


class Material(TypedDict):
    """The contents of an action's key: JSON values. The key is the SHA-256 of their canonical form.

    code     SHA-256 of the step's modules
    inputs   name, path and digest of each input
    outputs  name, path and kind of each output
    tools    state of each distribution
    local    for each local module, the digest of each file by path; absent if the action has no local modules
    gpu      the models of the GPUs; absent if the action uses no GPU
    device   the identity that the device reports; absent if no part of the action runs on a device
    """

    format: int
    step: str
    code: str
    params: dict[str, Any]
    inputs: list[list[str]]
    outputs: list[list[str]]
    tools: dict[str, Any]
    local: NotRequired[dict[str, dict[str, str]]]
    env: dict[str, str]
    cpu: int
    gpu: NotRequired[list[str]]
    device: NotRequired[dict[str, str]]
    python: str
    machine: str
