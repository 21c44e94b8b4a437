"""What a backend is to the step that partitions a program: an interface of modules."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast


class Partitioning:
    """How a backend takes part in lowering. The module that a declaration names as `partitioning` has an instance of a
    subclass as `PARTITIONING`. Only `ids` and `partitioner` have no default. `attributes` are those of the table in the
    stack, as the declaration offers them.

    ids          names of the executorch backends (BackendDetails subclasses) that its partitions are for
    annotations  keys of nodes' meta by which its partitioner passes facts to its compiler
    passes       passes on the edge program, before any backend is offered nodes
    """

    ids: tuple[str, ...]
    annotations: tuple[str, ...] = ()
    passes: tuple[Any, ...] = ()

    def prepare(self, program: Any) -> None:
        """Change an ATen program, without changing what it computes, into one that the partitioner can read."""

    def partitioner(self, attributes: Mapping[str, Any], left_out: Mapping[str, str]) -> Any:
        """Return an executorch Partitioner. Raises StepError for attributes that name what does not exist.

        left_out  nodes not to be taken, because their partition could not be compiled, and why
        """
        raise NotImplementedError

    @contextmanager
    def refusals(self) -> Iterator[dict[str, str]]:
        """While the context lasts, collect by node name why the partitioner left a node out."""
        yield {}

    def failure(self, program: Any, attributes: Mapping[str, Any]) -> str:
        """Return why a partition can't be compiled, where that is to be tried out while partitioning; else ''."""
        return ""

    def eager(self, program: Any, attributes: Mapping[str, Any]) -> tuple[Callable[..., Any], float] | None:
        """Return what the compiler makes of a partition, to run in eager mode, and its tolerance; None when it is the
        same."""
        return None

    def refusal(self, partitioner: Any, node: Any) -> str:
        """Return why the partitioner left out a node for which it gave no reason itself."""
        return "not taken by the partitioner"


def partitioning(entry: Mapping[str, Any]) -> Partitioning | None:
    """Load how a stack's entry takes part in lowering; None for one that takes what the others leave. The action names
    the modules that are loaded, so its key covers them."""
    return (
        cast("Partitioning", importlib.import_module(entry["partitioning"]).PARTITIONING)
        if entry["partitioning"]
        else None
    )
