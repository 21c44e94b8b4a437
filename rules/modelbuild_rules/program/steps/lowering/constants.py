"""A lowered program's own constants and buffers: which lie outside the .pte, and what buffers begin as."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from executorch.extension.flat_tensor.serialize.serialize import FlatTensorSerializer
from torch._export.utils import get_buffer

from modelbuild_rules.program.steps.linking.named_data import write_named

CONSTANTS = "constants"

_TAG = "weights"


def outside(node: Any) -> str:
    """Where a constant goes that lies outside the program: all into one file."""
    return _TAG


def initialize_buffers(program: Any) -> None:
    """Keep the initial state of each buffer that the program changes, unless it is all zeros, which arenas begin as.

    ExecuTorch drops it otherwise (executorch/exir/passes/init_mutable_pass.py).
    """
    mutated = set(program.graph_signature.buffers_to_mutate.values())
    for node in program.graph.nodes:
        if node.op == "placeholder" and program.graph_signature.inputs_to_buffers.get(node.name) in mutated:
            state = get_buffer(program, node)
            if state is not None and bool(state.any()):
                node.meta["et_init_buffer"] = True


def write_constants(lowered: Any, folder: Path) -> None:
    """Write what ExecuTorch keeps outside a lowered program, as named data (keys are qualified names)."""
    lowered.write_tensor_data_to_file(str(folder))
    entries = []
    path = folder / f"{_TAG}.ptd"
    if path.exists():
        payload = FlatTensorSerializer().deserialize(path.read_bytes())
        path.unlink()
        for key, entry in payload.named_data.items():
            layout = entry.tensor_layout
            described = layout and {
                "scalar_type": int(layout.scalar_type),
                "sizes": list(layout.sizes),
                "dim_order": list(layout.dim_order),
            }
            entries.append((key, payload.buffers[entry.buffer_index], 1, True, described))
    write_named(folder, entries)
