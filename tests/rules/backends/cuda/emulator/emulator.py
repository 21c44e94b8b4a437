"""A CUDA without a GPU: its libraries, and launches of kernels by Triton's interpreter on the CPU."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import struct
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from modelbuild_rules.backend_api.steps.cpp_compiler import zig

HERE = Path(__file__).parent
TARGET = "x86_64-linux-gnu.2.28"
RUNTIME, DRIVER = "libcudaem.so.13", "libcuda.so.1"
SHIMS = ("libextension_cuda.so", "libaoti_cuda_shims.so")

# torch has loaded the real one under its name; the shims are made to ask for ours by another of the same length.
_REAL = "libcudart.so.13"


def build(wheel: Path, folder: Path) -> None:
    """Make the emulator's libraries and the shims of an unpacked runtime wheel in an existing folder."""
    (folder / "runtime.map").write_text(f"{RUNTIME} {{ global: *; }};\n")
    for source, name, more in (
        ("runtime.c", RUNTIME, ["-Wl,--version-script=runtime.map"]),
        ("driver.c", DRIVER, []),
    ):
        (folder / source).write_text((HERE / source).read_text())
        command = ["cc", "-target", TARGET, "-shared", "-fPIC", "-O1", "-g0", source, "-o", name]
        zig([*command, f"-Wl,-soname,{name}", *more], folder)
    for name in SHIMS:
        _rename(wheel / name, folder)


def copy_runtime(libraries: Path, folder: Path) -> None:
    """Put the C++ runtime's libraries beside those of the emulator, which they use."""
    for library in libraries.glob("*.so"):
        if library.name in ("libmodelbuild_aoti.so", "libmodelbuild_cuda.so"):
            _rename(library, folder)
        elif library.name not in SHIMS:
            (folder / library.name).write_bytes(library.read_bytes())
    for description in libraries.glob("*.delegate.json"):
        (folder / description.name).write_bytes(description.read_bytes())


def _rename(library: Path, folder: Path) -> None:
    data = library.read_bytes()
    assert _REAL.encode() in data
    renamed = data.replace(_REAL.encode(), RUNTIME.encode()).replace(_hash(_REAL), _hash(RUNTIME))
    (folder / library.name).write_bytes(renamed)


def _hash(name: str) -> bytes:
    """Return the System V hash of a version's name in ELF."""
    value = 0
    for char in name.encode():
        value = ((value << 4) + char) & 0xFFFFFFFF
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high & 0xFFFFFFFF
    return struct.pack("<I", value)


class Launcher:
    """Runs kernels (see Kernel in backends/cuda/steps/generate/generate.py) by the names that the emulator's driver
    gives their functions, and checks each access to memory."""

    def __init__(self, libraries: Path, kernels: Mapping[str, Mapping[str, Any]]) -> None:
        from memory_check import MemoryCheck  # a script's folder is on the path, but not when only `build` is wanted

        self.count = 0
        self._kernels = kernels
        self._functions: dict[str, Any] = {}
        self.runtime = ctypes.CDLL(str(libraries / RUNTIME), ctypes.RTLD_GLOBAL)
        self.runtime.emu_remaining.restype = ctypes.c_size_t
        self._check = MemoryCheck(self._allocations)
        self._check.install()
        _copy_broadcasts()
        self.driver = ctypes.CDLL(str(libraries / DRIVER), ctypes.RTLD_GLOBAL)
        numbers = [ctypes.c_uint] * 4
        kind = ctypes.CFUNCTYPE(None, ctypes.c_char_p, *numbers, ctypes.POINTER(ctypes.c_void_p))
        self._callback = kind(self._launch)
        self.driver.emu_on_launch(self._callback)

    def _launch(self, name: bytes, x: int, y: int, z: int, threads: int, arguments: Any) -> None:
        try:
            self._run(self._kernels[name.decode()], (x, y, z), threads, arguments)
            self.count += 1
        except BaseException:  # the caller is C: there is nowhere to raise to
            traceback.print_exc()
            os._exit(3)

    def _run(self, kernel: Mapping[str, Any], grid: tuple[int, int, int], threads: int, arguments: Any) -> None:
        assert threads == 32 * kernel["warps"]
        values = {}
        for name, place in zip(kernel["arguments"], arguments, strict=False):
            kind = kernel["signature"][name]
            if kind.startswith("*"):
                values[name] = self._tensor(ctypes.c_uint64.from_address(place).value, kind[1:])
            else:
                values[name] = _NUMBERS[kind].from_address(place).value
        self._check.start(kernel["source"], kernel["widths"])
        source = kernel["source"]  # kernels of several methods may have one name
        function = self._functions.setdefault(source, None) or _function(kernel)
        self._functions[source] = function
        given = {**kernel["constants"], **values}
        function[grid](**{name: given.get(name) for name in function.arg_names})

    def _allocations(self) -> tuple[Any, Any]:
        """Return the starts and ends of the device's allocations, each sorted."""
        found = ((ctypes.c_uint64 * 2) * 4096)()
        count = self.runtime.emu_allocations(found)
        pairs = np.sort(np.ctypeslib.as_array(found)[:count], axis=0)
        return pairs[:, 0].copy(), pairs[:, 1].copy()

    def _tensor(self, address: int, kind: str) -> Any:
        import torch

        dtype = getattr(torch, _DTYPES[kind])
        if not address:  # of an empty tensor: no access to it passes the check
            return torch.empty(0, dtype=dtype)
        size = self.runtime.emu_remaining(ctypes.c_void_p(address))
        assert size, f"{address:x} is not on the device"
        data = (ctypes.c_char * size).from_address(address)
        flat = torch.frombuffer(data, dtype=torch.uint8)
        return flat[: size // dtype.itemsize * dtype.itemsize].view(dtype)


_DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "i64": "int64", "i32": "int32", "i16": "int16"}
_DTYPES |= {"i8": "int8", "u8": "uint8", "i1": "bool"}
_NUMBERS = {"i32": ctypes.c_int32, "i64": ctypes.c_int64, "fp32": ctypes.c_float, "fp64": ctypes.c_double}
_NUMBERS |= {"i1": ctypes.c_bool, "u32": ctypes.c_uint32}


def _function(kernel: Mapping[str, Any]) -> Any:
    """Return the interpreted Triton function of a kernel. TRITON_INTERPRET=1 is set."""
    from torch._inductor.runtime import triton_helpers

    triton_helpers.set_driver_to_gpu = lambda: None
    triton_helpers.libdevice = Libdevice()
    spec = importlib.util.spec_from_file_location(f"kernel_{kernel['entry']}", kernel["source"])
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.libdevice = triton_helpers.libdevice
    found = getattr(module, kernel["entry"])
    return getattr(found, "fn", found) if not hasattr(found, "arg_names") else found


def _copy_broadcasts() -> None:
    """Make the interpreter's broadcast arrays contiguous, as its atomic operations expect (triton 3.8.0)."""
    from triton.runtime import interpreter

    original = interpreter.InterpreterBuilder.create_broadcast

    def broadcast(builder: Any, arg: Any, shape: Any) -> Any:
        made = original(builder, arg, shape)
        made.data = np.ascontiguousarray(made.data)
        return made

    interpreter.InterpreterBuilder.create_broadcast = broadcast


class Libdevice:
    """CUDA's mathematical functions, which the interpreter lacks."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        import numpy as np
        import torch
        import triton.language as tl
        from triton.runtime.interpreter import TensorHandle

        def erf(x: Any) -> Any:
            return torch.erf(torch.from_numpy(np.ascontiguousarray(x))).numpy()

        others = {"erf": erf, "nearbyint": np.rint, "fast_dividef": np.divide, "mul_rn": np.multiply, "pow": np.power}
        others["rsqrt"] = lambda x: 1 / np.sqrt(x)
        function = others.get(name) or getattr(np, name)

        def call(*given: Any) -> Any:
            first = given[0].handle
            made = np.asarray(function(*[each.handle.data for each in given])).astype(first.data.dtype)
            return tl.tensor(TensorHandle(made, first.dtype), given[0].type)

        return call
