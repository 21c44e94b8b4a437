"""The kernels in a program of the CUDA backend."""

from __future__ import annotations

import re
import struct
from pathlib import Path

from modelbuild_rules.backends.cuda.steps.kernels import cubin


def fat_binaries(data: bytes, folder: Path) -> list[tuple[set[str], set[str]]]:
    """Return the capabilities, as "sm_86", of the SASS and of the PTX in each kernel image of a file."""
    found = []
    for start in (each.start() for each in re.finditer(re.escape(struct.pack("<I", 0xBA55ED50)), data)):
        _, _, header, size = struct.unpack_from("<IHHQ", data, start)
        image = folder / "image.bin"
        image.write_bytes(data[start : start + header + size])
        ptx = set(re.findall(r"sm_\d+", cubin.cuobjdump("-lptx", image)))
        found.append((cubin.architectures(image), ptx))
    return found
