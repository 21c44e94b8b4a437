"""Check that the GPUs visible to the program's CUDA runtime can run the program.

This file queries the GPUs in a separate process, so that the step, which imports torch, loads no second CUDA.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from modelbuild_rules.testing.documents import GpuNeeds, GpusFound

_MAJOR, _MINOR = 75, 76  # cudaDeviceAttr


def missing_gpu(cudart: Path, wanted: GpuNeeds) -> str:
    """Return the GPU requirement that this machine does not meet, as text; '' if it meets all.

    cudart  libcudart.so of the runtime that runs the program
    """
    capabilities = wanted["capabilities"]
    what = f"a GPU of compute capability {' or '.join(capabilities)}" if capabilities else "a GPU"
    if not wanted["count"]:
        return f"needs {what}, and the test requests none; expected gpus = 1"
    found = _query(cudart)
    here = found["capabilities"]
    if not here:
        return f"needs {what}, and there is none here ({found['problem']})"
    least = max(wanted["count"], wanted["index"] + 1)
    if len(here) < least:
        return f"needs {least} GPUs, and there {'is 1' if len(here) == 1 else f'are {len(here)}'} here"
    capability = here[wanted["index"]]
    if capabilities and capability not in capabilities:
        return f"needs {what}, and GPU {wanted['index']} here has {capability}"
    return ""


def _query(cudart: Path) -> GpusFound:
    """Return the GPUs of this machine."""
    done = subprocess.run(
        [sys.executable, "-P", __file__, str(cudart)], capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode:
        return {"capabilities": [], "problem": f"the query of GPUs exited with status {done.returncode}"}
    return cast("GpusFound", json.loads(done.stdout))


def main(library: str) -> None:
    """Print the result of `_query` as JSON."""
    cuda = ctypes.CDLL(library)
    cuda.cudaGetErrorString.restype = ctypes.c_char_p
    count = ctypes.c_int()
    status = cuda.cudaGetDeviceCount(ctypes.byref(count))
    problem = cuda.cudaGetErrorString(status).decode() if status else "no CUDA-capable device is detected"
    found = [] if status else [_capability(cuda, device) for device in range(count.value)]
    print(json.dumps({"capabilities": found, "problem": problem}))


def _capability(cuda: Any, device: int) -> str:
    numbers = []
    for attribute in (_MAJOR, _MINOR):
        value = ctypes.c_int()
        cuda.cudaDeviceGetAttribute(ctypes.byref(value), attribute, device)
        numbers.append(value.value)
    return ".".join(map(str, numbers))


if __name__ == "__main__":
    main(sys.argv[1])
