"""Write the blob of a TensorRT delegate: metadata for the runtime, then the engine. Torch-free.

The format is torch_tensorrt's (torch_tensorrt/executorch/serialization.py), so each project's runtime runs the other's
programs; backends/tensorrt/blob_reader.py reads it. All numbers are little-endian: magic (TR01, or TR02 if results
share memory with inputs), offset and size of the metadata (u32, u32), offset of the engine (u32, a multiple of 16),
size of the engine (u64), one byte 1, seven zero bytes; then JSON, padding, the engine. The JSON's field
serialized_metadata, a pickle of Python objects that no runtime needs, is left empty. The fields
"declared" (runtime/tensorrt/declared.hpp) and "precisions" are modelbuild's own.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAGIC, MAGIC_ALIASED = b"TR01", b"TR02"
_HEADER = struct.Struct("<4sIIIQ8s")


@dataclass(frozen=True, slots=True)
class Metadata:
    """An engine's metadata.

    inputs, outputs  names of the engine's bindings, in the order of the delegate's arguments
    device           index of the GPU that runs the engine
    platform         "linux_x86_64"
    aliased          (output, input, kind) of results that share the memory of an input
    declared         facts about an engine from elsewhere, which the runtime compares with it; None for other engines
    precisions       the types that its layers compute in, if known
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    device: int = 0
    platform: str = "linux_x86_64"
    aliased: tuple[tuple[str, str, str], ...] = ()
    declared: Mapping[str, Any] | None = None
    precisions: tuple[str, ...] = ()

    def json(self) -> bytes:
        """Return the metadata as JSON, with fields in torch_tensorrt's order."""
        names = [(name, True) for name in self.inputs] + [(name, False) for name in self.outputs]
        described = {
            "io_bindings": [{"name": name, "dtype": "", "shape": [], "is_input": given} for name, given in names],
            "aliased_io": [{"output": out, "input": given, "kind": kind} for out, given, kind in self.aliased],
            "hardware_compatible": False,
            "device_id": self.device,
            "serialized_metadata": "",
            "target_platform": self.platform,
        }
        declared = {} if self.declared is None else {"declared": self.declared}
        computes = {"precisions": self.precisions} if self.precisions else {}
        return json.dumps(described | declared | computes, separators=(",", ":")).encode()


def write_blob(path: Path, metadata: Metadata, engine: Any) -> None:
    """Write a blob. `engine` is any buffer, and is not copied in memory."""
    described = metadata.json()
    magic = MAGIC_ALIASED if metadata.aliased else MAGIC
    offset = _aligned(_HEADER.size + len(described))
    with path.open("wb") as file:
        file.write(
            _HEADER.pack(magic, _HEADER.size, len(described), offset, memoryview(engine).nbytes, b"\1" + bytes(7))
        )
        file.write(described)
        file.write(bytes(offset - _HEADER.size - len(described)))
        file.write(engine)


def _aligned(offset: int) -> int:
    return (offset + 15) & ~15
