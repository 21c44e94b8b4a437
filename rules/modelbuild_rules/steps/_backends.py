"""The backends by the name they have in a stack."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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

    def partitioner(self, attributes: Mapping[str, Any], left_out: Mapping[str, str]) -> Any:
        """An executorch Partitioner. Raises StepError for attributes that name what does not exist.

        `left_out` says by node why it is not to be taken: its partition could not be compiled.
        """

    def refusals(self) -> AbstractContextManager[dict[str, str]]:
        """While the context lasts, collects by node name why the partitioner left a node out."""

    def failure(self, program: Any, attributes: Mapping[str, Any]) -> str:
        """Why a partition can't be compiled, where that is to be tried out while partitioning; else ''."""

    def eager(self, program: Any, attributes: Mapping[str, Any]) -> tuple[Callable[..., Any], float] | None:
        """What the compiler makes of a partition, to run in eager mode, and its tolerance; None when it is the same."""

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
    if kind == "cuda":
        from modelbuild_rules.steps.backends import cuda

        return cuda
    raise StepError(f"no backend '{kind}'")
