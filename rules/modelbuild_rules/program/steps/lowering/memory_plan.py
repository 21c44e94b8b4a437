"""Options of executorch for a program's memory: inputs and outputs in device memory that the caller provides, and an
arena for the buffers of methods that share their state.

Private of executorch, checked on 1.5.1: the members `non_const_buffer_sizes` and `non_const_buffer_device` of a planned
graph's `meta`. Not patched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.passes.propagate_device_config import PropagateDeviceConfig

from modelbuild.step import StepError
from modelbuild_rules.program.steps.linking.shared_state import ARENA

if TYPE_CHECKING:
    from modelbuild_rules.program.documents import MethodState


def device_io_config() -> dict[str, Any]:
    """Return the fields of ExecutorchBackendConfig that omit copies between a method's inputs or outputs and partitions
    on a GPU, and plan no memory for inputs and outputs."""
    return {
        "propagate_device_config": PropagateDeviceConfig(
            skip_h2d_for_method_inputs=True, skip_d2h_for_method_outputs=True
        ),
        "memory_planning_pass": MemoryPlanningPass(alloc_graph_input=False, alloc_graph_output=False),
    }


@contextmanager
def device_io_errors() -> Iterator[None]:
    """Raise StepError for a program with an input that cannot be in device memory."""
    try:
        yield
    except RuntimeError as error:
        if "skip_h2d_for_method_inputs=True requires placeholder" not in str(error):
            raise
        name = str(error).split("'")[1]
        raise StepError(
            f"device_io: input '{name}' goes to several parts, or to one on a GPU and to the CPU; ExecuTorch keeps an"
            " input in device memory for one part only"
        ) from None


class _StatePlanning(MemoryPlanningPass):
    """Plan activations as executorch does, and then changed buffers one after another in a separate arena, before the
    arenas of GPUs. executorch's own option for this refuses methods with memory of a GPU."""

    def __init__(self) -> None:
        super().__init__(alloc_mutable_buffers=False)
        self._planned: list[tuple[Any, Any]] = []

    def run(self, graph_module: Any, graph_signature: Any = None) -> Any:
        self._planned.append((graph_module, graph_signature))
        return super().run(graph_module, graph_signature)

    def run_multimethod(self) -> None:
        for module, signature in self._planned:
            specs = {id(each): each for node in module.graph.nodes for each in _specs(node.meta.get("spec"))}
            for spec in specs.values():
                if spec.mem_id is not None and spec.mem_id >= ARENA:
                    spec.mem_id += 1
            devices = module.meta.get("non_const_buffer_device") or []
            for device in devices:
                device.buffer_idx += device.buffer_idx >= ARENA
            size = 0
            changed = set(signature.buffers_to_mutate.values())
            for node in module.graph.nodes:
                if node.op == "placeholder" and signature.inputs_to_buffers.get(node.name) in changed:
                    (spec,) = _specs(node.meta["spec"])
                    spec.realign(self.alignment)
                    spec.mem_id, spec.mem_offset = ARENA, size
                    size += spec.allocated_memory
            module.meta["non_const_buffer_sizes"].insert(ARENA, size)


def _specs(planned: Any) -> list[Any]:
    """Return the tensors' plans of a node."""
    if isinstance(planned, (list, tuple)):
        return [each for one in planned for each in _specs(one)]
    return [planned] if hasattr(planned, "mem_id") else []


class StateBuffers:
    """The buffers of an edge program before any partition takes some."""

    def __init__(self, program: Any) -> None:
        self._changed = set(program.graph_signature.buffers_to_mutate.values())
        self._read = set(program.graph_signature.inputs_to_buffers.values()) - self._changed

    def as_json(self, lowered: Any, common: Mapping[str, str]) -> MethodState:
        """Return state.json. `lowered` is the program whose partitions are calls of delegates; `common` are buffers
        inside partitions that share them, by the memory."""
        left = set(lowered.graph_signature.buffers_to_mutate.values())
        return {
            "changed": sorted(self._changed),
            "inside": sorted(self._changed - left - set(common)),
            "common": dict(common),
            "read": sorted(self._read),
        }


def arena_config(lowered: Any, device_io: bool) -> dict[str, Any]:
    """Return the fields of ExecutorchBackendConfig that put changed buffers, with their names, into arena 2. Raises
    StepError for a changed buffer with `device_io`, which uses other arenas."""
    left = sorted(set(lowered.graph_signature.buffers_to_mutate.values()))
    if not left:
        return {}
    if device_io:
        raise StepError(
            f"methods of one module share the buffer '{left[0]}', which ExecuTorch cannot plan together with"
            " 'device_io'; expected no 'device_io', or the state as inputs and outputs"
        )
    return {"memory_planning_pass": _StatePlanning(), "emit_mutable_buffer_names": True}
