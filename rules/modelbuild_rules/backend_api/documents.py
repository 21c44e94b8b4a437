"""JSON documents of backends and program rules.

For type checkers only: import it under `if TYPE_CHECKING`, which leaves it out of every step's key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict


class OfferedBackend(TypedDict):
    """An entry of the partition step's parameter `backends`: one backend of the stack."""

    kind: str
    """The backend's name, as the `type` of its table."""

    partitioning: str
    """Import name of the module that selects its nodes; '' for a backend that takes all remaining nodes."""

    attributes: Mapping[str, Any]
    """The return value of the backend's `partition_attributes`."""


class NeededLibrary(TypedDict):
    """A library that a compiled partition needs and that is not part of the runtime."""

    product: str
    """Its name, such as "TensorRT-RTX"."""

    version: str
    """The version that compiled the partition, as "1.6.1"."""

    exact: bool
    """True if no other version can run it; otherwise any newer version of the same major version can."""

    libraries: list[str]
    """Names of files. Any one of the files is enough."""


class PartitionFacts(TypedDict, total=False):
    """about.json, which a compile step may write: facts about a compiled partition. A subclass may add others."""

    capabilities: list[int]
    """Compute capabilities that it runs on, as 86 for 8.6."""

    glibc: str
    """The oldest glibc that its library loads on, as "2.28"."""

    requires: NeededLibrary
    """The library that it needs in addition to the runtime."""

    state: list[str]
    """Qualified names of the buffers that it changes and shares with other methods."""

    estimate: Estimate
    """Its time, for `modelbuild inspect --cost`."""


class KernelEstimate(TypedDict):
    """A kernel that a call of a partition launches."""

    nodes: list[int]
    """The indices of the partition's nodes that it computes."""

    bytes: int
    """The bytes of memory that it reads and writes."""

    seconds: NotRequired[float]
    """Missing if it cannot be estimated."""


class Estimate(TypedDict):
    """The estimated time of a partition's call on a device."""

    device: str
    """The assumed product."""

    basis: str
    """The measurements that it was fitted to, and its error."""

    call: float
    """Seconds of a call besides its kernels."""

    link: float
    """Bytes per second between the memories of the host and the device."""

    kernels: list[KernelEstimate]


class TensorLayout(TypedDict):
    """The type and shape of a tensor in a .ptd."""

    scalar_type: int
    """Its dtype: a number of scalar_type.fbs, such as 6 for float32."""

    sizes: list[int]
    dim_order: list[int]
    """Dimensions, the outermost in memory first."""


class StoredData(TypedDict):
    """The data of a tensor that is stored after compilation."""

    name: str
    """Name of a weight of the partition, or of a call's result."""

    size: int
    sha256: str
    """SHA-256 of its mark, in hexadecimal, which its key may contain."""


class StoredFile(TypedDict):
    """stored.json of a partition that was compiled without the values of its weights."""

    calls: Mapping[str, Any]
    """[operator, arguments, keyword arguments] by the name of the result (model/steps/exported/recipes.py)."""

    data: dict[str, StoredData]
    """By the key of the named data."""


class NeededValues(TypedDict):
    """needs_values.json of a partition that could not be compiled without the values of its weights."""

    why: str
    attributes: Mapping[str, Any]
    """The parameter of the compile step."""


class NamedEntry(TypedDict):
    """An entry of named.json."""

    key: str
    file: str
    """Path of the blob, relative to the folder."""

    alignment: int
    """Alignment in the program, in bytes."""

    external: bool
    """True if the blob may be outside the .pte, as weights may and code may not."""

    layout: TensorLayout | None
    """None for data that is not a tensor."""
