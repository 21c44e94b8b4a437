"""The backends of a stack, as the steps that lower a program load them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from modelbuild_rules.backend_api.steps.partitioning import Partitioning
from modelbuild_rules.backend_api.steps.plug_ins import plug_in

if TYPE_CHECKING:
    from modelbuild_rules.backend_api.documents import OfferedBackend


@dataclass(frozen=True, eq=False)
class StackBackend:
    """A backend that selects nodes.

    number       its index in the stack
    kind         its name
    attributes   its `partition_attributes`
    """

    number: int
    kind: str
    attributes: Mapping[str, Any]
    partitioning: Partitioning


@dataclass(frozen=True)
class Stack:
    """A stack.

    backends   the backends that select nodes, in the order in which they are offered nodes
    rest       the name of the backend that takes all remaining nodes; None if there is none
    ops        the only operators that `rest` may take; None if it may take all
    """

    backends: tuple[StackBackend, ...]
    rest: str | None = None
    ops: Sequence[str] | None = None

    @property
    def unrolls(self) -> int:
        """The maximum number of steps of a recurrent net that are unrolled."""
        return next((each.partitioning.unrolls for each in self.backends), Partitioning.unrolls)

    @property
    def generates_code(self) -> bool:
        """True if a backend of the stack compiles nodes to code of its own."""
        return any(each.partitioning.generates_code for each in self.backends)

    @property
    def passes(self) -> list[Any]:
        """The passes of the backends on an edge program."""
        return [each for backend in self.backends for each in backend.partitioning.passes]

    def prepare(self, program: Any) -> Any:
        """Return an ATen program, which may be changed, in a form that each backend's partitioner supports."""
        for backend in self.backends:
            program = backend.partitioning.prepare(program)
        return program

    @classmethod
    def load(cls, entries: Sequence[OfferedBackend]) -> Stack:
        """Import the partitioning modules of a stack's entries. The action names them, so its key covers them."""
        backends = tuple(
            StackBackend(
                number,
                entry["kind"],
                entry["attributes"],
                plug_in(entry["partitioning"], "PARTITIONING", Partitioning),
            )
            for number, entry in enumerate(entries)
            if entry["partitioning"]
        )
        for entry in entries:
            if not entry["partitioning"]:
                return cls(backends, entry["kind"], entry["attributes"]["ops"])
        return cls(backends)
