"""Time candidates of kernels on this machine's GPU: `python3 NAME.tuning.pyz FILE` writes their tuning file.

This file is the program of a package of candidates (candidates.py). The package needs only Python 3.10 and NVIDIA's
driver, so this file imports nothing of modelbuild.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import signal
import statistics
import sys
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RUNS = 21
LIMIT = 60
"""Seconds for all runs of a candidate."""

CHOICES = "choices.json"
VERSION = 1
HEAD = ("version", "torch", "triton", "capability")
ENTRY = ("op", "inputs", "output", "options", "chosen", "microseconds", "by_cost", "gpu", "driver")
DECIDES = ("op", "inputs", "output", "options")

_FLOATS = ("*fp", "*bf")
_SMALL = 0x3C  # each byte of a floating-point buffer, which makes a small number in all of the types
_NUMBERS: Mapping[str, Any] = {
    **{f"i{bits}": getattr(ctypes, f"c_int{bits}") for bits in (8, 16, 32, 64)},
    **{f"u{bits}": getattr(ctypes, f"c_uint{bits}") for bits in (8, 16, 32, 64)},
    **{"i1": ctypes.c_int8, "fp32": ctypes.c_float, "fp64": ctypes.c_double},
}
# Constants of cuda.h.
_SHARED_MEMORY = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_CACHE, _MAJOR, _MINOR = 38, 75, 76  # CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, _COMPUTE_CAPABILITY_MAJOR and _MINOR


@dataclass(frozen=True)
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


class TimingError(Exception):
    """Raised for a failed call of the driver, a GPU that does not fit, and an invalid file, with a message."""


def identity(what: Mapping[str, Any]) -> str:
    """Return the key of a choice: its operator, tensors and options, without the chosen parameters."""
    return json.dumps({name: what[name] for name in DECIDES}, sort_keys=True)


def tuning_text(entries: Iterable[Mapping[str, Any]], torch: str, triton: str, capability: str) -> str:
    """Return a tuning file's text: one line per choice, sorted, with the fastest of several entries for a choice."""
    slowest_first = sorted(entries, key=lambda entry: -entry["microseconds"])
    by_identity = {identity(entry): entry for entry in slowest_first}
    lines = [
        json.dumps({name: entry[name] for name in ENTRY if name in entry}) for _, entry in sorted(by_identity.items())
    ]
    head = {"version": VERSION, "torch": torch, "triton": triton, "capability": capability}
    shown = ",\n".join(f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in head.items())
    return f'{{\n{shown},\n  "choices": [' + ",".join(f"\n    {line}" for line in lines) + "\n  ]\n}\n"


class Card:
    """A GPU of this machine: its name, compute capability (as "8.6") and driver version. Raises TimingError if there is
    none."""

    def __init__(self, index: int = 0) -> None:
        try:
            self._cuda = ctypes.CDLL("libcuda.so.1")
        except OSError:
            raise TimingError("libcuda.so.1 can't be loaded; expected a machine with an NVIDIA GPU") from None
        self._call("cuInit", 0)
        count = self._integer("cuDeviceGetCount")
        if count <= index:
            raise TimingError(f"there is no GPU {index}; this machine has {count}")
        device = self._integer("cuDeviceGet", index)
        name = ctypes.create_string_buffer(128)
        self._call("cuDeviceGetName", name, len(name), device)
        self.name = name.value.decode()
        major, minor = (self._integer("cuDeviceGetAttribute", each, device) for each in (_MAJOR, _MINOR))
        self.capability = f"{major}.{minor}"
        self._flushed = 2 * max(self._integer("cuDeviceGetAttribute", _CACHE, device), 1 << 20)
        self.driver = self._version()
        self._call("cuCtxSetCurrent", self._handle("cuDevicePrimaryCtxRetain", device))

    def time(self, launch: Launch) -> float:
        """Return a kernel's median microseconds with inputs not in the cache. Raises TimingError if it can't run."""
        module = self._handle("cuModuleLoadData", launch.cubin)
        try:
            function = self._handle("cuModuleGetFunction", module, launch.name.encode())
            self._call("cuFuncSetAttribute", function, _SHARED_MEMORY, launch.shared)
            with self._arguments(launch) as (arguments, flush):
                return self._median(launch, function, arguments, flush)
        finally:
            self._call("cuModuleUnload", module)

    def _median(self, launch: Launch, function: Any, arguments: Any, flush: Any) -> float:
        start, end = (self._handle("cuEventCreate", 0) for _ in range(2))
        took, times = ctypes.c_float(), []
        for _ in range(RUNS + 2):
            self._call("cuMemsetD8Async", flush, 0, ctypes.c_size_t(self._flushed), None)
            self._call("cuEventRecord", start, None)
            blocks = (*launch.grid, launch.threads, 1, 1)
            self._call("cuLaunchKernel", function, *blocks, launch.shared, None, arguments, None)
            self._call("cuEventRecord", end, None)
            self._call("cuEventSynchronize", end)
            self._call("cuEventElapsedTime", ctypes.byref(took), start, end)
            times.append(took.value * 1e3)
        for event in (start, end):
            self._call("cuEventDestroy_v2", event)
        return statistics.median(times[2:])

    @contextmanager
    def _arguments(self, launch: Launch) -> Iterator[tuple[Any, Any]]:
        """Yield the arguments of cuLaunchKernel, and a buffer to overwrite between runs, which flushes the cache."""
        made: list[Any] = []

        def memory(size: int, byte: int) -> Any:
            pointer = ctypes.c_uint64()
            if size:
                self._call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
                made.append(pointer)
                self._call("cuMemsetD8_v2", pointer, byte, ctypes.c_size_t(size))
            return pointer

        def value(kind: str, given: float) -> Any:
            if kind.startswith("*"):
                return memory(int(given), _SMALL if kind.startswith(_FLOATS) else 0)
            if kind not in _NUMBERS:
                raise TimingError(f"arguments of type {kind} are not supported")
            return _NUMBERS[kind](given if kind.startswith("fp") else int(given))

        try:
            values = [value(kind, given) for kind, given in launch.arguments]
            pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(each) for each in values))
            yield pointers, memory(self._flushed, 0)
        finally:
            for pointer in made:
                self._call("cuMemFree_v2", pointer)

    def _version(self) -> str:
        """Return the driver's version as nvidia-smi prints it, or else the CUDA version that the driver supports."""
        file = Path("/proc/driver/nvidia/version")
        found = re.search(r"\s(\d+\.\d+(\.\d+)?)\s", file.read_text()) if file.is_file() else None
        if found:
            return found[1]
        version = self._integer("cuDriverGetVersion")
        return f"CUDA {version // 1000}.{version % 1000 // 10}"

    def _integer(self, name: str, *arguments: Any) -> int:
        made = ctypes.c_int()
        self._call(name, ctypes.byref(made), *arguments)
        return made.value

    def _handle(self, name: str, *arguments: Any) -> Any:
        made = ctypes.c_void_p()
        self._call(name, ctypes.byref(made), *arguments)
        return made

    def _call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver. Raises TimingError."""
        status = getattr(self._cuda, name)(*arguments)
        if status:
            words = ctypes.c_char_p()
            self._cuda.cuGetErrorString(status, ctypes.byref(words))
            raise TimingError(f"{name} failed: {(words.value or b'error').decode()} ({status})")


def in_child(index: int, launches: Sequence[Launch]) -> Iterator[dict[str, Any]]:
    """Yield the facts of a GPU, then the microseconds of each launch, in a separate process. The process yields a
    failure last and ends: a failed kernel destroys its context."""
    read, write = os.pipe()
    if not (child := os.fork()):
        with os.fdopen(write, "w", buffering=1) as out:
            try:
                card = Card(index)
                print(json.dumps({name: getattr(card, name) for name in ("name", "capability", "driver")}), file=out)
                for launch in launches:
                    signal.alarm(LIMIT)
                    print(json.dumps({"microseconds": card.time(launch)}), file=out)
            except TimingError as error:
                print(json.dumps({"failed": str(error)}), file=out)
            finally:
                out.flush()
                os._exit(0)
    os.close(write)
    try:
        with os.fdopen(read) as lines:
            yield from map(json.loads, lines)
    finally:
        status = os.waitpid(child, 0)[1]
    if status:
        yield {"failed": f"the process ended by signal {status & 127}, after {LIMIT} s or in the driver"}


def timed(index: int, launches: Sequence[Launch]) -> Iterator[dict[str, Any]]:
    """Yield {"microseconds"} or {"failed"} for each launch."""
    done = 0
    while done < len(launches):
        answers = in_child(index, launches[done:])
        if "failed" in (first := next(answers)):
            raise TimingError(first["failed"])
        for answer in answers:
            done += 1
            yield answer


def best(times: Mapping[int, float], usual: int | None) -> int:
    """Return the fastest candidate; `usual`, the candidate by cost, if it is within the noise of measurement."""
    if usual is not None and times.get(usual, float("inf")) <= 1.01 * min(times.values()):
        return usual
    return min(times, key=lambda n: (times[n], n))


def earlier(path: Path, package: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the entries of an existing tuning file. Raises TimingError if it is not a tuning file for the same
    versions."""
    if not path.exists():
        return []
    try:
        found = json.loads(path.read_text())
        wrong = next((name for name in HEAD if found.get(name) != package[name]), None)
        entries: list[dict[str, Any]] = [{name: each[name] for name in each} for each in found["choices"]]
        tuning_text(entries, "", "", "")
    except (AttributeError, KeyError, TypeError, ValueError):
        raise TimingError(f"{path}: not a tuning file; expected one to add to, or a new name") from None
    if wrong:
        raise TimingError(f"{path}: made with {wrong} {found.get(wrong)}; expected {package[wrong]}, or a new name")
    return entries


def card(index: int) -> dict[str, Any]:
    """Return the name, capability and driver of a GPU. Raises TimingError."""
    facts = next(in_child(index, []))
    if "failed" in facts:
        raise TimingError(facts["failed"])
    return facts


def times(index: int, launches: Sequence[Launch]) -> dict[int, float]:
    """Return the microseconds of launches by number. Failed launches are printed and excluded."""
    found: dict[int, float] = {}
    for number, answer in enumerate(timed(index, launches)):
        if "failed" in answer:
            print(f"\rnot timed: {launches[number].name}: {answer['failed']}", file=sys.stderr)
        else:
            found[number] = answer["microseconds"]
        if sys.stderr.isatty():
            print(f"\r{number + 1} of {len(launches)} candidates", end="", file=sys.stderr, flush=True)
    if launches and not found:
        raise TimingError("none of the candidates can be timed")
    return found


def entry(choice: Mapping[str, Any], took: Mapping[int, float], gpu: Mapping[str, str]) -> dict[str, Any]:
    """Return the entry of a tuning file for a choice. `took`: microseconds by the candidate's index."""
    usual, fastest = choice["usual"], best(took, choice["usual"])
    by_cost = {"by_cost": round(took[usual], 2)} if usual in took else {}
    found = {"chosen": choice["chosen"][fastest], "microseconds": round(took[fastest], 2), **by_cost}
    return {**{name: choice[name] for name in DECIDES}, **found, "gpu": gpu["name"], "driver": gpu["driver"]}


def tune(archive: Path, made: Path, index: int) -> None:
    """Time all candidates of a package, and add the fastest to a tuning file. Raises TimingError."""
    with zipfile.ZipFile(archive) as opened:
        package = json.loads(opened.read(CHOICES))
        entries = earlier(made, package)
        choices = [(choice, each) for choice in package["choices"] for each in choice["launches"]]
        launches = [Launch(**{**each, "cubin": opened.read(each["cubin"])}) for _, each in choices]
    gpu, started = card(index), time.monotonic()
    if gpu["capability"] != package["capability"]:
        raise TimingError(f"{gpu['name']} has compute capability {gpu['capability']}, not {package['capability']}")
    found, first, new = times(index, launches), 0, []
    for choice in package["choices"]:
        took = {n: found[first + n] for n in range(len(choice["launches"])) if first + n in found}
        first += len(choice["launches"])
        if took:
            new.append(entry(choice, took, gpu))
    # Beside, then renamed: a full disk must not destroy earlier measurements.
    beside = made.with_name(f".{made.name}.{os.getpid()}")
    try:
        beside.write_text(tuning_text([*entries, *new], package["torch"], package["triton"], package["capability"]))
        beside.replace(made)
    except OSError as error:
        raise TimingError(f"{made}: {error.strerror}") from None
    finally:
        beside.unlink(missing_ok=True)
    compared = [each for each in new if "by_cost" in each]
    fastest, by_cost = (sum(each[name] for each in compared) for name in ("microseconds", "by_cost"))
    print(
        f"\r{made}: {len(found)} candidates of {len(new)} choices timed on {gpu['name']} in"
        f" {time.monotonic() - started:.0f} s; {sum(each['microseconds'] < each['by_cost'] for each in compared)} are"
        f" faster than those by cost; one launch of each takes {fastest:.0f} us, by cost {by_cost:.0f} us"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Time candidates of kernels on this machine's GPU.")
    parser.add_argument("file", type=Path, help="the tuning file to write, or to add to")
    parser.add_argument("--gpu", type=int, default=0, metavar="N", help="the GPU's index (default: 0)")
    given = parser.parse_args()
    try:
        tune(Path(__file__).parent, given.file, given.gpu)
    except (TimingError, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
