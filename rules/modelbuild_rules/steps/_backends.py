"""The backends by the name they have in a stack."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from modelbuild.step import StepError


class Partitioning(Protocol):
    """How a backend takes part in lowering. `attributes` are those of its table in the stack.

    IDS          names of the executorch backends (BackendDetails subclasses) that its partitions are for
    ANNOTATIONS  keys of nodes' meta by which its partitioner tells its compiler something
    PASSES       passes on the edge program, before any backend is offered nodes
    """

    IDS: tuple[str, ...]
    ANNOTATIONS: tuple[str, ...]
    PASSES: tuple[Any, ...]

    def prepare(self, program: Any) -> None:
        """Change an ATen program, without changing what it computes, into one that the partitioner can read."""

    def partitioner(self, attributes: Mapping[str, Any]) -> Any:
        """An executorch Partitioner. Raises StepError for attributes that name what does not exist."""

    def refusals(self) -> AbstractContextManager[dict[str, str]]:
        """While the context lasts, collects by node name why the partitioner left a node out."""

    def refusal(self, partitioner: Any, node: Any) -> str:
        """Why the partitioner left out a node for which it gave no reason itself."""


def partitioning(kind: str) -> Partitioning:
    """The backend of a kind. Portable kernels are no backend: they take what backends leave."""
    if kind == "xnnpack":
        from modelbuild_rules.steps.backends import xnnpack

        return xnnpack
    if kind == "tensorrt":
        from modelbuild_rules.steps.backends import tensorrt

        return tensorrt
    raise StepError(f"no backend '{kind}'")
