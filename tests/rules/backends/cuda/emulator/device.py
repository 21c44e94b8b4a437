"""Tensors on the emulated device, made and read by the shims of ExecuTorch's CUDA delegate."""

from __future__ import annotations

import ctypes
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from emulator import SHIMS

DTYPES = ("float32", "int64", "int32", "bfloat16", "float16", "bool", "uint8", "int8", "int16")


class Device:
    """Sorts for libraries too: ExecuTorch's kernel for sorts is CUDA code."""

    def __init__(self, libraries: Path, cuda: ctypes.CDLL, driver: ctypes.CDLL) -> None:
        self.cuda = cuda
        places = [ctypes.POINTER(ctypes.c_void_p)] * 2
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_int, *places)
        self._callback = kind(self._sort)
        driver.emu_on_sort(self._callback)
        for name in SHIMS:
            self.shims = ctypes.CDLL(str(libraries / name), ctypes.RTLD_GLOBAL)

    def to_device(self, tensor: torch.Tensor) -> int:
        place = self.allocate(ctypes.c_void_p(tensor.data_ptr()), tensor.numel() * tensor.element_size())
        dtype = getattr(self.shims, f"aoti_torch_dtype_{str(tensor.dtype).removeprefix('torch.')}")()
        return self.tensor(place, tensor.shape, tensor.stride(), 0, dtype, "cuda")

    def allocate(self, source: ctypes.c_void_p, size: int) -> ctypes.c_void_p:
        place = ctypes.c_void_p()
        self.ok(self.cuda.cudaMalloc(ctypes.byref(place), ctypes.c_size_t(size)))
        self._copy(place, source, size)
        return place

    def tensor(
        self, place: ctypes.c_void_p, sizes: Sequence[int], strides: Sequence[int], offset: int, dtype: int, kind: str
    ) -> int:
        layout = ((ctypes.c_int64 * len(each))(*each) for each in (sizes, strides))
        device = getattr(self.shims, f"aoti_torch_device_type_{kind}")()
        made, none, zero = ctypes.c_void_p(), ctypes.c_int64(0), ctypes.c_int32(0)
        self.ok(
            self.shims.aoti_torch_create_tensor_from_blob_v2(
                *(place, ctypes.c_int64(len(sizes)), *layout, ctypes.c_int64(offset), ctypes.c_int32(dtype)),
                *(ctypes.c_int32(device), zero, ctypes.byref(made), zero, None, none),
            )
        )
        assert made.value
        return made.value

    def _sort(self, given: int, stable: int, dim: int, descending: int, values: Any, places: Any) -> int:
        try:
            x = self.to_host(ctypes.c_void_p(given))
            assert x.stride() == x.contiguous().stride(), "the kernel takes contiguous tensors"
            made = torch.sort(x, dim=dim, descending=bool(descending), stable=bool(stable))
            values[0], places[0] = self.to_device(made.values), self.to_device(made.indices)
        except BaseException:  # the caller is C
            traceback.print_exc()
            return 1
        return 0

    def to_host(self, handle: ctypes.c_void_p) -> torch.Tensor:
        dim, dtype, data = ctypes.c_int64(), ctypes.c_int32(), ctypes.c_void_p()
        sizes, strides = (ctypes.POINTER(ctypes.c_int64)() for _ in range(2))
        for name, place in (("dim", dim), ("dtype", dtype), ("data_ptr", data), ("sizes", sizes), ("strides", strides)):
            self.ok(getattr(self.shims, f"aoti_torch_get_{name}")(handle, ctypes.byref(place)))
        shape, steps = sizes[: dim.value], strides[: dim.value]
        (kind,) = (each for each in DTYPES if getattr(self.shims, f"aoti_torch_dtype_{each}")() == dtype.value)
        made = torch.empty_strided(shape, steps, dtype=getattr(torch, kind))
        if made.numel():
            self._copy(ctypes.c_void_p(made.data_ptr()), data, made.untyped_storage().nbytes())
        return made

    def _copy(self, to: ctypes.c_void_p, source: ctypes.c_void_p, size: int) -> None:
        """Between host and device, whichever is which."""
        self.ok(self.cuda.cudaMemcpy(to, source, ctypes.c_size_t(size), 4))

    def ok(self, status: int) -> None:
        if status:
            raise RuntimeError(f"status {status}")
