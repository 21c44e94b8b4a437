"""Constants and buffers of a lowered program: constants outside the .pte, and the initial state of buffers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from executorch.extension.flat_tensor.serialize.serialize import FlatTensorSerializer
from torch._export.utils import get_buffer

from modelbuild_rules.backend_api.steps.named_data import NamedBytes, write_named

if TYPE_CHECKING:
    from modelbuild_rules.backend_api.documents import TensorLayout

CONSTANTS = "constants"

_TAG = "weights"


def outside(node: Any) -> str:
    """Return the name of the file for a constant outside the program; all constants share one."""
    return _TAG


def initialize_buffers(program: Any) -> None:
    """Keep the initial state of each buffer that the program mutates, unless it is all zeros, as arenas initially are.

    ExecuTorch drops it otherwise (executorch/exir/passes/init_mutable_pass.py).
    """
    mutated = set(program.graph_signature.buffers_to_mutate.values())
    for node in program.graph.nodes:
        if node.op == "placeholder" and program.graph_signature.inputs_to_buffers.get(node.name) in mutated:
            state = get_buffer(program, node)
            if state is not None and bool(state.any()):
                node.meta["et_init_buffer"] = True


def write_constants(lowered: Any, folder: Path) -> None:
    """Write a lowered program's external constants as named data, under their qualified names."""
    lowered.write_tensor_data_to_file(str(folder))
    entries: list[NamedBytes] = []
    path = folder / f"{_TAG}.ptd"
    if path.exists():
        payload = FlatTensorSerializer().deserialize(path.read_bytes())
        path.unlink()
        for key, entry in payload.named_data.items():
            layout = entry.tensor_layout
            described: TensorLayout | None = (
                None
                if layout is None
                else {
                    "scalar_type": int(layout.scalar_type),
                    "sizes": list(layout.sizes),
                    "dim_order": list(layout.dim_order),
                }
            )
            entries.append(NamedBytes(key, payload.buffers[entry.buffer_index], 1, True, described))
    write_named(folder, entries)
