"""The models of the GPUs that actions see, from CUDA's driver: outputs made on a GPU may depend on its model.

The driver's version is not included. It decides neither the choice of kernels nor, except for code that the driver
compiles, their results; and an update would invalidate all results. A separate process queries the driver, because a
process that initialized the driver cannot fork a process that uses a GPU.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache

_LIBRARY = "libcuda.so.1"
_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*
_SECONDS = 60


@cache
def visible() -> tuple[str, ...]:
    """Return the models of this machine's GPUs in CUDA_VISIBLE_DEVICES, each once and in CUDA's order, as
    `NVIDIA L4 (8.9)`: name and compute capability. Empty if there is no driver, or it does not start."""
    command = [sys.executable, "-I", "-S", __file__]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_SECONDS)
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(dict.fromkeys(json.loads(asked.stdout)))


def _models() -> Iterator[str]:
    """Yield the models in this process. Raises OSError if there is no driver, or it does not start."""
    cuda = ctypes.CDLL(_LIBRARY)
    count = ctypes.c_int()
    _check(cuda.cuInit(0))
    _check(cuda.cuDeviceGetCount(ctypes.byref(count)))
    for index in range(count.value):
        device, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        name = ctypes.create_string_buffer(256)
        _check(cuda.cuDeviceGet(ctypes.byref(device), index))
        _check(cuda.cuDeviceGetName(name, len(name), device))
        for attribute, value in ((_MAJOR, major), (_MINOR, minor)):
            _check(cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device))
        yield f"{name.value.decode(errors='replace')} ({major.value}.{minor.value})"


def _check(result: int) -> None:
    if result:
        raise OSError(f"CUDA error {result}")


if __name__ == "__main__":
    try:
        print(json.dumps(list(_models())))
    except OSError:
        print("[]")
