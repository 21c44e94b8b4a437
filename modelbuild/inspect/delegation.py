"""The delegation.json next to a program: each node's backend, why other backends refused the node, and the
partitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from modelbuild.errors import UsageError

_MOST = 2**63 - 1


class _Table(BaseModel):
    """Keeps unknown members."""

    model_config = ConfigDict(extra="allow", strict=True)


class Refusal(_Table):
    backend: str
    why: str


class DelegatedNode(_Table):
    """A node; `partition` is set if a backend took it."""

    name: str
    op: str
    backend: str | None
    refused: tuple[Refusal, ...]
    partition: str | None = None
    index: int | None = None
    module: str | None = None
    method: str | None = None


class Kernel(_Table):
    nodes: tuple[int, ...]
    bytes: int = Field(ge=0, le=_MOST)
    seconds: float | None = Field(default=None, ge=0, allow_inf_nan=False)


class Estimate(_Table):
    device: str
    basis: str
    call: float = Field(ge=0, allow_inf_nan=False)
    kernels: tuple[Kernel, ...]


class About(_Table):
    """Facts about a partition; members other than `estimate` are the backend's own."""

    estimate: Estimate | None = None

    def facts(self) -> dict[str, Any]:
        return self.model_dump(exclude={"estimate"}, exclude_unset=True)


class MethodEstimate(_Table):
    seconds: float = Field(ge=0, allow_inf_nan=False)
    moved: tuple[int, int]
    unknown: tuple[str, ...]


class Partition(_Table):
    """A partition, identified by the size of its blob in the program, and by the digest if several have the same
    size."""

    processed_bytes: int = Field(ge=0, le=_MOST)
    processed_sha256: str | None = None
    id: str | None = None
    nodes: int | None = Field(default=None, ge=0, le=_MOST)
    named_bytes: int | None = Field(default=None, ge=0, le=_MOST)
    about: About | None = None


class Delegation(_Table):
    nodes: tuple[DelegatedNode, ...]
    partitions: tuple[Partition, ...]
    estimates: dict[str, MethodEstimate] = {}

    def of(self, method: str) -> Delegation:
        """Return the nodes of a method and its partitions, which have ids such as "encode.p0"; all nodes and partitions
        of a program with one model."""
        nodes = tuple(node for node in self.nodes if (node.method or method) == method)
        own = tuple(each for each in self.partitions if (each.id or "").startswith(f"{method}."))
        return Delegation(nodes=nodes, partitions=own or self.partitions, estimates=self.estimates)

    def left(self) -> list[dict[str, Any]]:
        """Return the nodes outside partitions, as in the file."""
        return [node.model_dump(exclude_unset=True) for node in self.nodes if node.partition is None]


def read_delegation(path: Path) -> Delegation | None:
    """Read a file. Returns None if it is missing, or belongs to another program: an object without nodes or partitions.
    Raises UsageError for a damaged file."""
    try:
        return Delegation.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except ValidationError as error:
        first, *rest = error.errors(include_url=False)
        if any(each["type"] == "missing" and each["loc"] in (("nodes",), ("partitions",)) for each in (first, *rest)):
            return None
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
        where = f"{path}: {place}" if place else str(path)
        problem = f"{first['msg'][0].lower()}{first['msg'][1:]}"
        raise UsageError(f"{where}: {problem}; expected the file that a build writes next to the program") from None
