"""Convert numpy arrays, torch tensors and other tensors with DLPack to addresses for the C++ runtime. Only numpy arrays
with another layout or, for bfloat16, another type are copied.

DLPack 1.0 (dlpack.h): the capsule "dltensor" contains a DLManagedTensor, which begins with a DLTensor.
"""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from modelbuild_runtime.dtypes import NAMES
from modelbuild_runtime.errors import InputError
from modelbuild_runtime.native.library import HOST, Tensor

_NUMBERS = {name: number for number, name in NAMES.items()}
_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool"}  # DLDataTypeCode
_CPU, _CUDA, _PINNED, _MANAGED = 1, 2, 3, 13  # DLDeviceType

# The legacy default stream in DLPack and in CUDA.
DEFAULT_STREAM = 1


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


@dataclass(frozen=True, slots=True)
class View:
    """Memory of another library's tensor. owner: the objects that keep it alive. gpu: its index, or None for host."""

    address: int
    dtype: str
    shape: tuple[int, ...]
    gpu: int | None
    owner: Any

    def tensor(self) -> Tensor:
        sizes = (ctypes.c_int64 * len(self.shape))(*self.shape)
        return Tensor(
            self.address, sizes, len(self.shape), _NUMBERS.get(self.dtype, -1), HOST if self.gpu is None else self.gpu
        )


def torch_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def view_of(name: str, value: Any, dtype: str) -> View:
    """Return the memory of a tensor for an input of an element type. Raises InputError if the memory cannot be used
    directly."""
    if hasattr(value, "__dlpack_device__") and not isinstance(value, np.ndarray):
        return _of_dlpack(name, value)
    array = np.asarray(value)
    if dtype == "bfloat16" and array.dtype == np.float32:
        array, told = to_bfloat16(array), "bfloat16"
    else:
        told = str(array.dtype)
    array = np.ascontiguousarray(array).reshape(array.shape)
    return View(array.ctypes.data, told, array.shape, None, array)


def _of_dlpack(name: str, value: Any) -> View:
    kind, _ = value.__dlpack_device__()
    on_gpu = kind in (_CUDA, _MANAGED)
    if not on_gpu and kind not in (_CPU, _PINNED):
        raise InputError(f"'{name}': is on a device of DLPack's type {kind}; expected the host or a CUDA GPU")
    # A run with torch tensors is on torch's own stream and need not wait; other libraries synchronize their tensors.
    stream = {"stream": -1 if torch_tensor(value) else DEFAULT_STREAM} if on_gpu else {}
    try:
        capsule = value.__dlpack__(**stream)
    except (BufferError, RuntimeError) as error:
        raise InputError(f"'{name}': {error}") from None
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    found = _DLTensor.from_address(get(capsule, b"dltensor"))
    shape = tuple(found.shape[: found.ndim])
    if found.strides and not _row_major(shape, found.strides[: found.ndim]):
        raise InputError(f"'{name}': is not contiguous in row-major order")
    kind_name = _KINDS.get(found.code, "?")
    dtype = "bool" if kind_name == "bool" else f"{kind_name}{found.bits}"
    address = (found.data or 0) + found.byte_offset
    return View(address, dtype, shape, found.device_id if on_gpu else None, (value, capsule))


def _row_major(shape: tuple[int, ...], strides: list[int]) -> bool:
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != step:
            return 0 in shape
        step *= size
    return True


def to_bfloat16(array: np.ndarray) -> np.ndarray:
    """Return the bits of the nearest bfloat16 of each float32, ties to even; NaNs stay NaNs."""
    bits = np.ascontiguousarray(array).view(np.uint32)
    rounded = bits + 0x7FFF + ((bits >> 16) & 1)
    return np.where(np.isnan(array), (bits >> 16) | 0x40, rounded >> 16).astype(np.uint16).reshape(array.shape)


def from_bfloat16(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)
