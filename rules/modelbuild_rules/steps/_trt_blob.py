"""The blob of a TensorRT delegate: the engine behind what the run time must know of it. Torch-free.

The format is torch_tensorrt's (torch_tensorrt/executorch/serialization.py, magic TR01), so that programs of either are
run by the other's runtime. All numbers are little-endian: magic, offset and size of the metadata (u32, u32), offset of
the engine (u32, a multiple of 16), size of the engine (u64), a byte 1, seven of zero; then JSON, padding, the engine.
Its field serialized_metadata, a pickle of Python objects that no run time needs, is left empty.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAGIC = b"TR01"
_HEADER = struct.Struct("<4sIIIQ8s")


@dataclass(frozen=True, slots=True)
class Metadata:
    """What stands before an engine.

    inputs, outputs  names of the engine's bindings, in the order of the delegate's arguments
    device           which GPU runs the engine
    platform         "linux_x86_64"
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    device: int = 0
    platform: str = "linux_x86_64"

    def json(self) -> bytes:
        """In the order of fields that torch_tensorrt writes."""
        names = [(name, True) for name in self.inputs] + [(name, False) for name in self.outputs]
        described = {
            "io_bindings": [{"name": name, "dtype": "", "shape": [], "is_input": given} for name, given in names],
            "aliased_io": [],
            "hardware_compatible": False,
            "device_id": self.device,
            "serialized_metadata": "",
            "target_platform": self.platform,
        }
        return json.dumps(described, separators=(",", ":")).encode()


def write_blob(path: Path, metadata: Metadata, engine: Any) -> None:
    """Write a blob; `engine` is any buffer, and goes to the file without being copied in memory."""
    described = metadata.json()
    offset = _aligned(_HEADER.size + len(described))
    with path.open("wb") as file:
        file.write(
            _HEADER.pack(MAGIC, _HEADER.size, len(described), offset, memoryview(engine).nbytes, b"\1" + bytes(7))
        )
        file.write(described)
        file.write(bytes(offset - _HEADER.size - len(described)))
        file.write(engine)


def read_blob(path: Path) -> tuple[Metadata, int, int]:
    """A blob's metadata, and where in the file its engine lies: offset and size. Raises ValueError for another file."""
    with path.open("rb") as file:
        header = file.read(_HEADER.size)
        if len(header) < _HEADER.size or header[:4] != MAGIC:
            raise ValueError(f"{path.name} is no TensorRT delegate's blob; expected it to begin with {MAGIC.decode()}")
        _, start, length, offset, size, _ = _HEADER.unpack(header)
        end = path.stat().st_size
        if start < _HEADER.size or start + length > offset or offset % 16 or offset + size > end:
            raise ValueError(f"{path.name}: a TensorRT delegate's blob of {end} bytes whose parts do not fit in it")
        file.seek(start)
        described = json.loads(file.read(length))
    bindings: Sequence[dict[str, Any]] = described["io_bindings"]
    return (
        Metadata(
            tuple(each["name"] for each in bindings if each["is_input"]),
            tuple(each["name"] for each in bindings if not each["is_input"]),
            described["device_id"],
            described["target_platform"],
        ),
        offset,
        size,
    )


def _aligned(offset: int) -> int:
    return (offset + 15) & ~15
