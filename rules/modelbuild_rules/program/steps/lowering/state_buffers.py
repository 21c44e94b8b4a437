"""The buffers of a method that shares its state with other methods of its program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from executorch.exir.passes import MemoryPlanningPass

from modelbuild.step import StepError

if TYPE_CHECKING:
    from modelbuild_rules.program.documents import MethodState


class StateBuffers:
    """The names of a program's buffers, before any partition takes some."""

    def __init__(self) -> None:
        self._changed: set[str] = set()
        self._all: set[str] = set()

    def noted(self, check: Callable[[Any], None]) -> Callable[[Any], None]:
        """Return a check of the edge program that also notes its buffers."""

        def both(program: Any) -> None:
            self._changed = set(program.graph_signature.buffers_to_mutate.values())
            self._all = set(program.graph_signature.inputs_to_buffers.values())
            check(program)

        return both

    def as_json(self, lowered: Any, common: Mapping[str, str]) -> MethodState:
        """Return state.json. `lowered` is the program whose partitions are calls of delegates; `common` are buffers
        inside of partitions which have them in common, by the memory."""
        left = set(lowered.graph_signature.buffers_to_mutate.values())
        return {
            "changed": sorted(self._changed),
            "inside": sorted(self._changed - left - set(common)),
            "common": dict(sorted(common.items())),
            "read": sorted(self._all - self._changed),
        }

    def arena_config(self, lowered: Any, device_io: bool) -> dict[str, Any]:
        """Return the options of executorch that put changed buffers, with their names, into arena 2. Raises StepError
        for such a buffer with `device_io`, whose arenas are others."""
        left = sorted(set(lowered.graph_signature.buffers_to_mutate.values()))
        if not left:
            return {}
        if device_io:
            raise StepError(
                f"methods of one module share the buffer '{left[0]}', which ExecuTorch cannot plan together with"
                " 'device_io'; expected no 'device_io', or the state as inputs and outputs"
            )
        return {
            "memory_planning_pass": MemoryPlanningPass(share_mutable_buffers=True),
            "emit_mutable_buffer_names": True,
        }
