"""Lower programs whose inputs and outputs are in device memory that the caller provides."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from modelbuild.step import StepError


def device_io_config() -> dict[str, Any]:
    """Return the fields of ExecutorchBackendConfig that omit copies between a method's inputs or outputs and partitions
    on a GPU, and plan no memory for inputs and outputs."""
    from executorch.exir.passes import MemoryPlanningPass
    from executorch.exir.passes.propagate_device_config import PropagateDeviceConfig

    return {
        "propagate_device_config": PropagateDeviceConfig(
            skip_h2d_for_method_inputs=True, skip_d2h_for_method_outputs=True
        ),
        "memory_planning_pass": MemoryPlanningPass(alloc_graph_input=False, alloc_graph_output=False),
    }


@contextmanager
def device_io_errors() -> Iterator[None]:
    """Raise StepError for a program with an input that can't be in device memory."""
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
