"""Read the header of a serialized engine, without TensorRT. Torch-free.

Layout, as `trtexec --getPlanVersionOnly` reads it, and as seen in engines of TensorRT 8.6.0 and TensorRT-RTX 1.6.1: a
tag, a zero (u32), a number (u64), the engine's size in bytes (u64), the version of TensorRT (major, minor, patch and
build, one byte each). All numbers are little-endian.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

SIZE = 28
"""Bytes of the header."""

_HEADER = struct.Struct("<4sIQQ4B")
_PRODUCTS = {b"ftrt": "TensorRT", b"vtrt": "TensorRT-RTX"}
# Seen in TensorRT 8.6.0 only: the compute capability of the GPU that the engine was built on.
_BUILT_ON = re.compile(rb"\x12\x80\x01\0\x10\x80\x01\0\x07\x80\x01\0(.)\0\0\0\x07\x80\x01\0(.)\0\0\0", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PlanHeader:
    """The header of an engine.

    product     "TensorRT" or "TensorRT-RTX"
    version     of the TensorRT that built it: major, minor, patch
    size        bytes of the engine
    capability  compute capability of the GPU that built it, as "9.0"; None if unknown
    """

    product: str
    version: tuple[int, int, int]
    size: int
    capability: str | None = None

    @property
    def version_text(self) -> str:
        return ".".join(map(str, self.version))


def read_header(start: bytes) -> PlanHeader:
    """Return the header at the start of an engine's bytes; 256 bytes are enough. Raises ValueError, with a problem to
    print after the file's name, if the bytes are not an engine's."""
    tag = start[:4]
    if len(start) < SIZE or tag not in _PRODUCTS:
        # Some exporters write JSON, and its length, before the engine.
        hint = ", without the JSON before it" if start[4:5] == b"{" else ""
        raise ValueError(f"is not an engine of TensorRT; expected a file that `trtexec --saveEngine` writes{hint}")
    _, format, _, size, major, minor, patch, _ = _HEADER.unpack_from(start)
    if format:
        raise ValueError(f"is an engine in the unknown format {format}; expected format 0")
    built_on = _BUILT_ON.search(start[:256]) if tag == b"ftrt" else None
    capability = f"{built_on[1][0]}.{built_on[2][0]}" if built_on else None
    return PlanHeader(_PRODUCTS[tag], (major, minor, patch), size, capability)


def libraries(header: PlanHeader, version_compatible: bool) -> list[str]:
    """Return the names of the libraries that can run an engine; for a version-compatible engine, also the lean
    library."""
    if header.product == "TensorRT-RTX":
        return [f"libtensorrt_rtx.so.{header.version[0]}"]
    kinds = ("", "_lean") if version_compatible else ("",)
    return [f"libnvinfer{kind}.so.{header.version[0]}" for kind in kinds]
