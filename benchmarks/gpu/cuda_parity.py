"""Measure the difference between the C++ runtime, through its C API, and eager mode."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np


class Tensor(ctypes.Structure):
    """mb_tensor of modelbuild/runtime.h."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("rank", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
        ("device", ctypes.c_int32),
    ]


DTYPES = {3: np.int32, 4: np.int64, 5: np.float16, 6: np.float32, 11: np.bool_}


def parity(pieces: Path, name: str) -> dict[str, float]:
    """Return the greatest difference over all calls, made in sequence on one program loaded through the C API."""
    from cuda_zoo import ZOO

    library = ctypes.CDLL(str(pieces / "runtime/lib/libmodelbuild_runtime.so"))
    library.mb_last_error.restype = ctypes.c_char_p
    library.mb_output_count.restype = ctypes.c_size_t

    def ok(status: int) -> None:
        if status:
            raise SystemExit(library.mb_last_error().decode())

    program = ctypes.c_void_p()
    ok(library.mb_load(str(pieces / name / f"{name}.pte").encode(), None, ctypes.byref(program)))
    error, scale, worst = 0.0, 0.0, 0
    with np.load(pieces / name / "calls.npz") as values:
        count = len({key.split(".")[1] for key in values.files})
        for call in range(count):
            given = [np.ascontiguousarray(each) for each in _values(values, "in", call)]
            tensors = (Tensor * len(given))(*map(_tensor, given))
            ok(library.mb_run(program, b"forward", tensors, ctypes.c_size_t(len(given)), None))
            expected = list(_values(values, "out", call))
            assert library.mb_output_count(program) == len(expected)
            for place, right in enumerate(expected):
                made = Tensor()
                ok(library.mb_output(program, ctypes.c_size_t(place), ctypes.byref(made)))
                got = _array(made)
                assert (got.shape, got.dtype) == (right.shape, right.dtype), (got.shape, right.shape)
                if right.size:
                    scale = max(scale, float(np.abs(right).max()))
                    here = float(np.abs(got.astype(np.float64) - right).max())
                    error, worst = max((error, worst), (here, place))
    library.mb_unload(program)
    return {"error": error, "allowed": ZOO[name].tolerance, "calls": count, "largest": scale, "worst_output": worst}


def _values(values: Any, kind: str, call: int) -> Iterator[np.ndarray]:
    place = 0
    while f"{kind}.{call}.{place}" in values.files:
        yield values[f"{kind}.{call}.{place}"]
        place += 1


def _tensor(array: np.ndarray) -> Tensor:
    shape = (ctypes.c_int64 * array.ndim)(*array.shape)
    (dtype,) = (number for number, kind in DTYPES.items() if kind == array.dtype)
    return Tensor(array.ctypes.data, ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64)), array.ndim, dtype, -1)


def _array(tensor: Tensor) -> np.ndarray:
    shape, kind = tensor.shape[: tensor.rank], np.dtype(DTYPES[tensor.dtype])
    size = int(np.prod(shape)) * kind.itemsize
    return np.frombuffer(ctypes.string_at(tensor.data, size), kind).reshape(shape)
