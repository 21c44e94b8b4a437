"""Read the blob of a TensorRT delegate, without torch or TensorRT.

The format, which steps/engine/blob.py writes, is torch_tensorrt's (torch_tensorrt/executorch/serialization.py): magic
TR01, or TR02 if an engine's outputs may share memory with inputs. All numbers are little-endian: magic, offset and
size of the metadata (u32, u32), offset of the engine (u32, a multiple of 16), size of the engine (u64), eight bytes;
then JSON, padding, the engine.
"""

from __future__ import annotations

import json
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelbuild.api import Blob

MAGICS = (b"TR01", b"TR02")
_HEADER = struct.Struct("<4sIIIQ8s")
_HEAD = 1 << 20
# A TensorRT-RTX engine lists its architectures as text near its beginning. Seen in tensorrt_rtx 1.6.1.
_ACCELERATORS = re.compile(rb"accelerators=\{((?:sm\d+ ?)*)\}")


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine and its metadata.

    inputs, outputs       names of the engine's bindings, in the order of the delegate's arguments
    device                index of the GPU that runs the engine
    platform              "linux_x86_64"
    compute_capabilities  ("8.6", "8.9"); empty if the engine does not list them
    offset, size          the engine's bytes in the file
    metadata              all of the JSON
    precisions            types that its layers compute in: ("float16", "float32"); empty if the blob does not list them
    warning               an unreadable value and the value assumed instead; '' if there is none
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    device: int
    platform: str
    compute_capabilities: tuple[str, ...]
    offset: int
    size: int
    metadata: dict[str, Any]
    warning: str = ""
    precisions: tuple[str, ...] = ()


def read_engine(path: Path, start: int = 0, length: int | None = None) -> Engine:
    """Return the engine in the `length` bytes at byte `start` of a file. Raises ValueError if they are not a blob."""
    length = path.stat().st_size - start if length is None else length
    with path.open("rb") as file:
        file.seek(start)
        header = file.read(min(_HEADER.size, length))
        if len(header) < _HEADER.size or header[:4] not in MAGICS:
            raise ValueError("not a TensorRT delegate's blob; expected it to begin with TR01")
        _, begin, size, offset, engine, _ = _HEADER.unpack(header)
        if begin < _HEADER.size or begin + size > offset or offset % 16 or offset + engine > length:
            raise ValueError(f"a TensorRT delegate's blob of {length} bytes whose parts do not fit in it")
        file.seek(start + begin)
        try:
            metadata = json.loads(file.read(size))
        except (ValueError, RecursionError):
            raise ValueError("a TensorRT delegate's blob whose metadata are not JSON") from None
        file.seek(start + offset)
        head = file.read(min(engine, _HEAD))
    try:
        bindings = [(str(each["name"]), bool(each["is_input"])) for each in metadata["io_bindings"]]
        platform = str(metadata.get("target_platform", ""))
    except (KeyError, TypeError) as error:
        raise ValueError(f"a TensorRT delegate's blob whose metadata lacks {error}") from None
    device, warning = _device(metadata)
    found = _ACCELERATORS.search(head)
    return Engine(
        inputs=tuple(name for name, given in bindings if given),
        outputs=tuple(name for name, given in bindings if not given),
        device=device,
        platform=platform,
        compute_capabilities=tuple(map(_capability, found[1].split())) if found else (),
        offset=start + offset,
        size=engine,
        metadata=metadata,
        warning=warning,
        precisions=_precisions(metadata),
    )


def describe(path: Path, offset: int, size: int) -> Blob:
    """Return the report of `modelbuild inspect` about an engine. Raises ValueError if the bytes are not a blob."""
    engine = read_engine(path, offset, size)
    built_for = ", ".join(engine.compute_capabilities)
    capabilities = f"compute capability {built_for}" if built_for else "an unknown compute capability"
    computes = f" in {', '.join(engine.precisions)}" if engine.precisions else ""
    warning = f" (warning: {engine.warning})" if engine.warning else ""
    return Blob(
        f"TensorRT engine of {engine.size:,} bytes{computes} for {capabilities} on GPU {engine.device}{warning}",
        engine.inputs,
        engine.outputs,
        {
            "bytes": engine.size,
            "offset": engine.offset,
            "device_id": engine.device,
            "warning": engine.warning or None,
            "platform": engine.platform,
            "compute_capabilities": list(engine.compute_capabilities) or None,
            "precisions": list(engine.precisions) or None,
            "metadata": engine.metadata,
        },
    )


def _device(metadata: dict[str, Any]) -> tuple[int, str]:
    """Return the index of an engine's GPU, and a warning if it is unreadable; torch_tensorrt then uses GPU 0."""
    found = metadata.get("device_id")
    if isinstance(found, int) and not isinstance(found, bool) and found >= 0:
        return found, ""
    what = "no GPU" if found is None else f"the GPU {json.dumps(found)}"
    return 0, f"it names {what} to run on; cuda:0 is assumed"


def _precisions(metadata: dict[str, Any]) -> tuple[str, ...]:
    found = metadata.get("precisions")
    return tuple(each for each in found if isinstance(each, str)) if isinstance(found, list) else ()


def _capability(name: bytes) -> str:
    """Return a compute capability from its architecture: 12.0 for sm120."""
    number = name.decode().removeprefix("sm")
    return f"{number[:-1]}.{number[-1]}"
