"""Time kernels on this machine's GPU with CUDA's driver alone: it needs libcuda.so.1, but not torch's CUDA.

This file is also the program that uses the driver, in a process of its own: steps are forked from a process that may
have initialized CUDA, which then can't be used in them, and a failing kernel destroys its context.
"""

from __future__ import annotations

import base64
import ctypes
import fcntl
import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from modelbuild.step import StepError

RUNS = 21
_FLOATS = ("*fp", "*bf")
_SMALL = 0x3C  # each byte of a floating-point buffer, which makes a small number in all of the types
_NUMBERS = {
    **{f"i{bits}": getattr(ctypes, f"c_int{bits}") for bits in (8, 16, 32, 64)},
    **{f"u{bits}": getattr(ctypes, f"c_uint{bits}") for bits in (8, 16, 32, 64)},
    **{"i1": ctypes.c_int8, "u1": ctypes.c_uint8, "fp32": ctypes.c_float, "fp64": ctypes.c_double},
}


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel and its launch parameters.

    name       the function's name in the cubin
    grid       blocks in each dimension; `threads` and `shared` bytes are per block
    arguments  (Triton's type, value): a buffer's bytes for a pointer ("*fp32"; 0 is a null pointer), or a number
    """

    name: str
    cubin: bytes
    grid: tuple[int, int, int]
    threads: int
    shared: int
    arguments: tuple[tuple[str, float], ...]


class Timer(Protocol):
    """A GPU that times kernels; capability as 86, driver version as text."""

    name: str
    capability: int
    driver: str

    def time(self, launch: Launch) -> float:
        """Return a kernel's median microseconds with inputs not in the cache. Raises DriverError if it can't run."""

    def exclusive(self) -> AbstractContextManager[None]:
        """Keep other builds from timing on the GPU while the context lasts."""


class CardProcess:
    """A Card in a process of its own, restarted after a failure. Raises StepError if there is no GPU."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        paths = os.pathsep.join(path for path in sys.path if path)
        command = [sys.executable, "-P", __file__]
        environment = {**os.environ, "PYTHONPATH": paths}
        self._process = subprocess.Popen(
            command,
            text=True,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        about = self._answer()
        if "problem" in about:
            raise StepError(about["problem"])
        self.name, self.capability, self.driver = about["name"], about["capability"], about["driver"]

    def time(self, launch: Launch) -> float:
        """Return a kernel's median microseconds with inputs not in the cache. Raises DriverError if it can't run."""
        stream = self._process.stdin
        assert stream is not None
        stream.write(json.dumps({**asdict(launch), "cubin": base64.b64encode(launch.cubin).decode()}) + "\n")
        stream.flush()
        answer = self._answer()
        if "failed" in answer:
            self._process.kill()
            self._process.communicate()
            self._start()
            raise DriverError(answer["failed"])
        return float(answer["microseconds"])

    def _answer(self) -> dict[str, Any]:
        stream = self._process.stdout
        assert stream is not None
        line = stream.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"failed": "ended", "problem": "the CUDA driver ended"}
        return answer

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Keep other builds from timing on the GPU while the context lasts, by a lock on its device file, which all
        builds can open."""
        file = Path("/dev/nvidia0")
        with file.open("rb") if file.exists() else nullcontext() as opened:
            if opened is not None:
                fcntl.flock(opened, fcntl.LOCK_EX)
            yield


class DriverError(Exception):
    """Raised for a failed call of the driver, with its status and message."""


class Card:
    """A GPU of this machine: its name, capability (as 86) and driver version. Raises StepError if there is none."""

    def __init__(self, index: int = 0) -> None:
        try:
            from cuda.bindings import driver
        except ImportError:
            raise StepError("the package 'cuda-bindings' is not installed; install modelbuild[cuda]") from None
        self._cuda: Any = driver
        try:
            self._open(index)
        except DriverError as failed:
            raise StepError(
                f'build_on = "gpu" needs an NVIDIA GPU; {failed}; expected a machine with one, or build_on = "cpu"'
            ) from None
        except RuntimeError:  # cuda.bindings found no driver
            raise StepError(
                'build_on = "gpu" needs an NVIDIA GPU and its driver; libcuda.so.1 can\'t be loaded here; expected a'
                ' machine with one, or build_on = "cpu"'
            ) from None

    def _open(self, index: int) -> None:
        self._call("cuInit", 0)
        count = self._call("cuDeviceGetCount")
        if count <= index:
            raise DriverError(f"this machine has {count}")
        device = self._call("cuDeviceGet", index)
        self.name = self._call("cuDeviceGetName", 128, device).partition(b"\0")[0].decode()
        known = self._cuda.CUdevice_attribute
        major = self._call("cuDeviceGetAttribute", known.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device)
        minor = self._call("cuDeviceGetAttribute", known.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device)
        self.capability = 10 * major + minor
        cache = self._call("cuDeviceGetAttribute", known.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, device)
        self._flushed = 2 * max(cache, 1 << 20)
        self.driver = self._driver()
        self._call("cuCtxSetCurrent", self._call("cuDevicePrimaryCtxRetain", device))

    def time(self, launch: Launch) -> float:
        """Return a kernel's median microseconds with inputs not in the cache. Raises DriverError if it can't run."""
        module = self._call("cuModuleLoadData", launch.cubin)
        try:
            function = self._call("cuModuleGetFunction", module, launch.name.encode())
            shared = self._cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._call("cuFuncSetAttribute", function, shared, launch.shared)
            with self._arguments(launch) as (arguments, flush):
                return self._median(launch, function, arguments, flush)
        finally:
            self._call("cuModuleUnload", module)

    def _median(self, launch: Launch, function: Any, arguments: Any, flush: Any) -> float:
        start, end = (self._call("cuEventCreate", 0) for _ in range(2))
        times = []
        for _ in range(RUNS + 2):
            self._call("cuMemsetD8Async", flush, 0, self._flushed, 0)
            self._call("cuEventRecord", start, 0)
            self._call("cuLaunchKernel", function, *launch.grid, launch.threads, 1, 1, launch.shared, 0, arguments, 0)
            self._call("cuEventRecord", end, 0)
            self._call("cuEventSynchronize", end)
            times.append(self._call("cuEventElapsedTime", start, end) * 1e3)
        for event in (start, end):
            self._call("cuEventDestroy", event)
        return statistics.median(times[2:])

    @contextmanager
    def _arguments(self, launch: Launch) -> Iterator[tuple[Any, Any]]:
        """Yield the arguments of cuLaunchKernel, and a buffer to overwrite between runs, which flushes the cache."""
        made: list[Any] = []

        def memory(size: int, byte: int) -> Any:
            if not size:
                return 0
            made.append(self._call("cuMemAlloc", size))
            self._call("cuMemsetD8", made[-1], byte, size)
            return int(made[-1])

        try:
            values = [
                memory(int(value), _SMALL if kind.startswith(_FLOATS) else 0)
                if kind.startswith("*")
                else float(value)
                if kind.startswith("fp")
                else int(value)
                for kind, value in launch.arguments
            ]
            yield (tuple(values), tuple(_type(kind) for kind, _ in launch.arguments)), memory(self._flushed, 0)
        finally:
            for pointer in made:
                self._call("cuMemFree", pointer)

    def _driver(self) -> str:
        """Return the driver's version as nvidia-smi prints it, or else the CUDA version that the driver supports."""
        file = Path("/proc/driver/nvidia/version")
        found = re.search(r"\s(\d+\.\d+(\.\d+)?)\s", file.read_text()) if file.is_file() else None
        if found:
            return found[1]
        version = self._call("cuDriverGetVersion")
        return f"CUDA {version // 1000}.{version % 1000 // 10}"

    def _call(self, name: str, *arguments: Any) -> Any:
        """Call a function of the driver and return its result. Raises DriverError."""
        status, *values = getattr(self._cuda, name)(*arguments)
        if int(status):
            _, words = self._cuda.cuGetErrorString(status)
            raise DriverError(f"{name} failed: {(words or b'error').decode()} ({int(status)})")
        return values[0] if values else None


def _type(kind: str) -> Any:
    """Return the C type of a kernel's argument. Raises DriverError for an unknown one."""
    if kind.startswith("*"):
        return ctypes.c_void_p
    if kind not in _NUMBERS:
        raise DriverError(f"arguments of type {kind} are not supported")
    return _NUMBERS[kind]


def main() -> None:
    """Print the GPU's properties, then the time of each launch that a line of the input describes."""

    def answer(**facts: Any) -> None:
        print(json.dumps(facts), flush=True)

    try:
        card = Card()
    except StepError as error:
        return answer(problem=str(error))
    answer(name=card.name, capability=card.capability, driver=card.driver)
    for line in sys.stdin:
        given = json.loads(line)
        arguments = tuple((kind, value) for kind, value in given["arguments"])
        cubin = base64.b64decode(given["cubin"])
        try:
            launch = Launch(**{**given, "cubin": cubin, "grid": tuple(given["grid"]), "arguments": arguments})
            answer(microseconds=card.time(launch))
        except DriverError as failed:
            answer(failed=str(failed))


if __name__ == "__main__":
    main()
