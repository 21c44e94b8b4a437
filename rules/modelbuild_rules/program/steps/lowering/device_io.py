"""Inputs and outputs in device memory: how a program is made that leaves them there, to its caller."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from modelbuild.step import StepError


def device_io_config() -> dict[str, Any]:
    """Of ExecutorchBackendConfig: no copies at a method's ends where a part on a GPU stands there, and no memory of the
    program's own for inputs and outputs."""
    from executorch.exir.passes import MemoryPlanningPass
    from executorch.exir.passes.propagate_device_config import PropagateDeviceConfig

    return {
        "propagate_device_config": PropagateDeviceConfig(
            skip_h2d_for_method_inputs=True, skip_d2h_for_method_outputs=True
        ),
        "memory_planning_pass": MemoryPlanningPass(alloc_graph_input=False, alloc_graph_output=False),
    }


@contextmanager
def told_as_device_io() -> Iterator[None]:
    """Raises StepError for a program whose input can't lie in device memory."""
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
