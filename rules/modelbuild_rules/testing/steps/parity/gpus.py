"""The GPUs that this process may use, by the CUDA runtime that programs are run with, and whether they will do.

A process of its own asks for them, this file: CUDA's libraries stay out of the step, which has torch in it.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_MAJOR, _MINOR = 75, 76  # cudaDeviceAttr


def lacking_gpu(cudart: Path, wanted: Mapping[str, Any]) -> str:
    """What a program for GPUs lacks here, in a line; '' for nothing.

    cudart  libcudart.so of the runtime that runs the program
    wanted  count: GPUs that the test asks for; index: the one that runs the program; capabilities: those that the
            program is compiled for, as "8.6", any if none
    """
    capabilities: Sequence[str] = wanted["capabilities"]
    what = f"a GPU of compute capability {' or '.join(capabilities)}" if capabilities else "a GPU"
    if not wanted["count"]:
        return f"needs {what}, and the test asks for none; gpus = 1 does"
    found = _ask(cudart)
    here: list[str] = found["capabilities"]
    if not here:
        return f"needs {what}, and there is none here ({found['problem']})"
    least = max(wanted["count"], wanted["index"] + 1)
    if len(here) < least:
        return f"needs {least} GPUs, and there {'is 1' if len(here) == 1 else f'are {len(here)}'} here"
    capability = here[wanted["index"]]
    if capabilities and capability not in capabilities:
        return f"needs {what}, and GPU {wanted['index']} here has {capability}"
    return ""


def _ask(cudart: Path) -> dict[str, Any]:
    """capabilities: of each GPU here; problem: why there is none."""
    done = subprocess.run(
        [sys.executable, "-P", __file__, str(cudart)], capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode:
        return {"capabilities": [], "problem": f"asking for it ended with {done.returncode}"}
    return dict(json.loads(done.stdout))


def main(library: str) -> None:
    """Prints what _ask tells."""
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
