"""The blob of a TensorRT delegate: the engine behind what the run time must know of it. Torch-free.

The format is torch_tensorrt's (torch_tensorrt/executorch/serialization.py), so that programs of either are run by the
other's runtime; backends/tensorrt/blob_reader.py reads it. All numbers are little-endian: magic (TR01, or TR02 where
results share memory with inputs), offset and size of the metadata (u32, u32), offset of the engine (u32, a multiple of
16), size of the engine (u64), a byte 1, seven of zero; then JSON, padding, the engine. The field serialized_metadata of
the JSON, a pickle of Python objects that no run time needs, is left empty.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAGIC, MAGIC_ALIASED = b"TR01", b"TR02"
_HEADER = struct.Struct("<4sIIIQ8s")


@dataclass(frozen=True, slots=True)
class Metadata:
    """What stands before an engine.

    inputs, outputs  names of the engine's bindings, in the order of the delegate's arguments
    device           which GPU runs the engine
    platform         "linux_x86_64"
    aliased          (output, input, kind) of results that stand in the memory of an input
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    device: int = 0
    platform: str = "linux_x86_64"
    aliased: tuple[tuple[str, str, str], ...] = ()

    def json(self) -> bytes:
        """In the order of fields that torch_tensorrt writes."""
        names = [(name, True) for name in self.inputs] + [(name, False) for name in self.outputs]
        described = {
            "io_bindings": [{"name": name, "dtype": "", "shape": [], "is_input": given} for name, given in names],
            "aliased_io": [{"output": out, "input": given, "kind": kind} for out, given, kind in self.aliased],
            "hardware_compatible": False,
            "device_id": self.device,
            "serialized_metadata": "",
            "target_platform": self.platform,
        }
        return json.dumps(described, separators=(",", ":")).encode()


def write_blob(path: Path, metadata: Metadata, engine: Any) -> None:
    """Write a blob; `engine` is any buffer, and goes to the file without being copied in memory."""
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
