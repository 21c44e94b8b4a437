"""The JSON documents that travel between the steps, the rules and the readers of a program, as types.

For type checkers only: import it under `if TYPE_CHECKING`, which leaves it out of every step's key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

from modelbuild_rules.backend_api.documents import NeededLibrary, OfferedBackend, PartitionFacts
from modelbuild_rules.model.documents import Signature


class LoweredBackend(OfferedBackend):
    """An entry of the parameter `backends` of a step that repeats a lowering and a compilation."""

    compiling: str
    """Import name of the step that compiles a partition; '' for a backend that compiles nothing."""

    storing: str
    """Import name of the step that writes a compiled partition's weights; '' if the compile step does."""

    compiled: Mapping[str, Any]
    """The return value of the backend's `compile_attributes`."""


class PlannedPartition(TypedDict):
    """An entry of plan.json: a partition to compile."""

    id: str
    """`p0`, `p1`, ...: the name of its folder."""

    entry: int
    """Index of its backend in the stack."""

    kind: str
    """Name of its backend."""

    nodes: int
    """Number of nodes that compute."""

    bytes: int
    """Size of all files of its folder."""


class Refusal(TypedDict):
    """The reason why a backend did not take a node."""

    backend: str
    why: str


class NodePlace(TypedDict, total=False):
    """A node's place in a partition, and its method; empty outside partitions of report.json."""

    partition: str
    """Id of the partition."""

    index: int | None
    """Position of the node within the partition; None if unknown."""

    method: str
    """In delegation.json: the node's method."""


class NodeDelegation(NodePlace):
    """An entry of report.json, and of `nodes` in delegation.json: a node of the lowered graph."""

    name: str
    """The node's name; `branch.node` inside a branch of control flow."""

    op: str
    """Its operator, as `aten.add.Tensor`."""

    module: str | None
    """Qualified name of its module in the model; None if unknown."""

    origin: str | None
    """The node of the exported program that it was made from; None if unknown."""

    backend: str | None
    """Name of the backend that runs it."""

    refused: list[Refusal]
    """The backends before `backend` in the stack, in order."""


class BackendNodes(TypedDict):
    """An entry of `backends` in checked.json."""

    backend: str | None
    """Name of the backend; None for nodes that need none, such as sizes."""

    nodes: int
    partitions: int
    """Number of partitions that it takes, before equal ones are shared."""


class RefusedNodes(TypedDict):
    """An entry of `refused` in checked.json: nodes of one operator that were refused for the same reasons."""

    op: str
    nodes: int
    backend: str | None
    """Name of the backend that takes them."""

    refused: list[Refusal]


class BreakingNode(TypedDict):
    """An entry of `nodes` of a break."""

    name: str
    op: str
    source: str | None
    """Its line in the model's own source, as `net.py:12`; None if unknown."""


class Break(TypedDict):
    """An entry of `breaks` in checked.json: connected nodes outside partitions that read results of partitions, and
    whose results partitions read."""

    nodes: list[BreakingNode]
    before: list[str]
    """The partitions whose results they read."""

    after: list[str]
    """The partitions that read their results."""

    reads: int
    """The maximum number of bytes that they read of `before`."""

    read: int
    """The maximum number of bytes that `after` read of them."""

    instead: Mapping[str, str]
    """By operator, what to write instead, so that a backend takes it."""


class Checked(TypedDict):
    """checked.json: the backends of a method's nodes, found without compiling any."""

    version: int
    nodes: int
    backends: list[BackendNodes]
    refused: list[RefusedNodes]
    """The most frequent first."""

    breaks: list[Break]
    """The most bytes first."""


class ProcessedBlob(TypedDict):
    """The facts that identify a delegate's blob in a .pte."""

    processed_bytes: int
    """Its size."""

    processed_sha256: NotRequired[str]
    """Its SHA-256 in hexadecimal; absent if it is large."""


class PartitionAbout(TypedDict, total=False):
    """The facts about a compiled partition; empty if its compile step wrote none."""

    about: PartitionFacts


class CompiledPartition(ProcessedBlob, PartitionAbout):
    """An entry of `partitions` in delegation.json."""

    id: str
    """As in the plan. For a method other than `forward`, the method's name and a dot precede it."""

    backend: str | None
    """Name of its backend."""

    nodes: int
    """Number of nodes, of all its occurrences in the program."""

    named_bytes: int
    """Size of its named data, each blob counted once."""


class BackendTotal(TypedDict):
    """The sums of one backend."""

    nodes: int
    partitions: int
    bytes: int
    """Size of the blobs and the named data of its partitions, each counted once."""


class MethodEstimate(TypedDict):
    """The estimated time of a method that is called from host memory."""

    seconds: float
    """Without what is unknown."""

    moved: list[int]
    """The maximum bytes that move to the device, and from it."""

    unknown: list[str]
    """The parts without an estimate, such as partitions on the CPU."""


class DelegationDocument(TypedDict):
    """delegation.json, next to a program."""

    version: int
    totals: Mapping[str | None, BackendTotal]
    """By the backends' names."""

    partitions: Sequence[CompiledPartition]
    nodes: Sequence[NodeDelegation]
    estimates: NotRequired[Mapping[str, MethodEstimate]]
    """By method; empty if no partition has an estimate."""


class VerifiedMethod(TypedDict):
    """A method whose outputs were compared with its module's."""

    calls: Sequence[str]
    """The names of the compared calls; none if `random`."""

    random: bool
    """True if the module's outputs vary from call to call."""


class Verified(TypedDict):
    """verified.json: the result of a comparison of a program, as the C++ runtime runs it, with its modules."""

    version: int
    methods: Mapping[str, VerifiedMethod]


class MethodState(TypedDict):
    """state.json: the buffers of a method of a program whose methods share their state, by qualified name."""

    changed: list[str]
    inside: list[str]
    """Buffers in `changed` that a partition changes and keeps for itself."""

    common: dict[str, str]
    """Buffers in `changed` that a partition changes and shares with other partitions in this memory, such as
    "cuda:0"."""

    read: list[str]
    """The other buffers in `changed`."""


class Place(TypedDict):
    """The place of a tensor's bytes in a structure that a program is lowered to without the values of its weights."""

    file: str
    """Path of the file in the structure."""

    offset: int
    size: int
    name: str
    """Name of a file of the weights, or of a call's result."""


class RecipeFile(TypedDict):
    """recipes.json of a structure."""

    calls: Mapping[str, Any]
    """[operator, arguments, keyword arguments] by the name of the result."""

    places: list[Place]
    """The places of tensors in the residual program."""


class TargetDevice(TypedDict):
    """The facts about the program's device in a manifest."""

    arch: str
    os: str
    compute_capabilities: list[str]
    """As "8.7"; empty for a device without CUDA."""


class ManifestPart(TypedDict):
    """A compiled partition in a manifest."""

    id: str
    """As in delegation.json."""

    backend: str | None
    """Name of its backend."""

    bytes: int
    """Size of the delegate's blob."""

    sha256: str
    """SHA-256 of the blob, in hexadecimal."""

    requires: NotRequired[NeededLibrary]
    """The library that it needs in addition to the runtime."""


class ManifestKernels(TypedDict):
    """A library of kernels outside ExecuTorch's own, in a manifest and in kernels.json of a residual program."""

    library: str
    """As "modelbuild_kernels"."""

    operators: list[str]
    """The program's operators that need it, sorted, as "torchvision::nms.out"."""


class Manifest(TypedDict):
    """The JSON of a manifest. The manifest of a .ptd has only the version. docs/reference/program-files.md describes
    it."""

    version: int
    signature: NotRequired[Signature | None]
    """signature.json: the inputs and outputs of each method."""

    device: NotRequired[TargetDevice | None]
    versions: NotRequired[Mapping[str, str]]
    """Versions of the packages that lowered the program, by name."""

    shared_state: NotRequired[bool]
    """True if buffers that methods change are in one arena, number 2, whose memory all methods share."""

    modules: NotRequired[Mapping[str, int]]
    """The number of each method's module, if partitions have state. Methods of one module share the state."""

    parts: NotRequired[list[ManifestPart]]
    kernels: NotRequired[list[ManifestKernels]]
