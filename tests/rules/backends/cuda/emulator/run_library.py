"""Runs a library on the emulator as ExecuTorch's CUDA delegate does: `run_library.py LIBRARIES FOLDER`.

FOLDER has library.so, compiled/, kernels.json, in.<n>.pt; out.<call>.<n>.pt are written. Without torch's CUDA.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"
import torch
from emulator import SHIMS, Launcher

DTYPES = ("float32", "int64", "int32", "bfloat16", "float16", "bool", "uint8", "int8", "int16")


class NamedTensor(ctypes.Structure):
    """A constant, as AOTInductor takes it."""

    _fields_ = (("name", ctypes.c_char_p), ("tensor", ctypes.c_void_p))


class Library:
    """An AOTInductor library and the shims that it calls."""

    def __init__(self, libraries: Path, folder: Path, cuda: ctypes.CDLL, driver: ctypes.CDLL) -> None:
        self.cuda = cuda
        places = [ctypes.POINTER(ctypes.c_void_p)] * 2
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_int, *places)
        self._callback = kind(self._sort)
        driver.emu_on_sort(self._callback)
        self.stream = ctypes.c_void_p()
        self._ok(cuda.cudaStreamCreate(ctypes.byref(self.stream)))
        for name in SHIMS:
            self.shims = ctypes.CDLL(str(libraries / name), ctypes.RTLD_GLOBAL)
        self.library = ctypes.CDLL(str(folder / "library.so"), os.RTLD_NOW)
        self.handle = ctypes.c_void_p()
        self._constants = list(self._read(folder / "compiled"))
        given = (NamedTensor * len(self._constants))(*(each for each, _ in self._constants))
        self._check(
            "CreateWithExternalConstants",
            *(ctypes.byref(self.handle), ctypes.c_size_t(1), b"cuda", None, given, ctypes.c_size_t(len(given))),
        )

    def _read(self, folder: Path) -> Iterator[tuple[NamedTensor, Any]]:
        """Yield the constants of a compiled part (runtime/aoti/constants.hpp), and memory that each needs."""
        entries = json.loads((folder / "named.json").read_text())
        named = {each["key"]: (folder / each["file"]).read_bytes() for each in entries}
        for line in named[(folder / "processed.bin").read_text().split("\n")[2]].decode().splitlines():
            name, kind, dtype, sizes, strides, offset, key, _ = line.split()
            data = ctypes.create_string_buffer(named[key], max(len(named[key]), 1))
            place = ctypes.c_void_p(ctypes.addressof(data))
            if kind == "cuda":
                place = self._allocate(place, len(named[key]))
            layout = [[int(each) for each in text.split(",") if each != "-"] for text in (sizes, strides)]
            yield NamedTensor(name.encode(), self._tensor(place, *layout, int(offset), int(dtype), kind)), data

    def run(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        made = self.launch([self.to_device(each) for each in inputs])
        self._ok(self.cuda.cudaStreamSynchronize(self.stream))
        outputs = [self._to_host(ctypes.c_void_p(each)).contiguous() for each in made]
        self.delete(made)
        return outputs

    def launch(self, inputs: list[int]) -> list[int]:
        """Inputs are tensors' handles, which the library takes over, as results are."""
        given = (ctypes.c_void_p * len(inputs))(*inputs)
        count = ctypes.c_size_t()
        self._check("GetNumOutputs", self.handle, ctypes.byref(count))
        made = (ctypes.c_void_p * count.value)()
        self._check("Run", self.handle, given, ctypes.c_size_t(len(inputs)), made, count, self.stream, None)
        return list(made)

    def delete(self, handles: list[int]) -> None:
        for each in handles:
            self._ok(self.shims.aoti_torch_delete_tensor_object(ctypes.c_void_p(each)))

    def close(self) -> None:
        self._check("Delete", self.handle)

    def to_device(self, tensor: torch.Tensor) -> int:
        place = self._allocate(ctypes.c_void_p(tensor.data_ptr()), tensor.numel() * tensor.element_size())
        dtype = getattr(self.shims, f"aoti_torch_dtype_{str(tensor.dtype).removeprefix('torch.')}")()
        return self._tensor(place, tensor.shape, tensor.stride(), 0, dtype, "cuda")

    def _allocate(self, source: ctypes.c_void_p, size: int) -> ctypes.c_void_p:
        place = ctypes.c_void_p()
        self._ok(self.cuda.cudaMalloc(ctypes.byref(place), ctypes.c_size_t(size)))
        self._copy(place, source, size)
        return place

    def _tensor(
        self, place: ctypes.c_void_p, sizes: Sequence[int], strides: Sequence[int], offset: int, dtype: int, kind: str
    ) -> int:
        layout = ((ctypes.c_int64 * len(each))(*each) for each in (sizes, strides))
        device = getattr(self.shims, f"aoti_torch_device_type_{kind}")()
        made, none, zero = ctypes.c_void_p(), ctypes.c_int64(0), ctypes.c_int32(0)
        self._ok(
            self.shims.aoti_torch_create_tensor_from_blob_v2(
                *(place, ctypes.c_int64(len(sizes)), *layout, ctypes.c_int64(offset), ctypes.c_int32(dtype)),
                *(ctypes.c_int32(device), zero, ctypes.byref(made), zero, None, none),
            )
        )
        assert made.value
        return made.value

    def _sort(self, given: int, stable: int, dim: int, descending: int, values: Any, places: Any) -> int:
        try:
            x = self._to_host(ctypes.c_void_p(given))
            assert x.stride() == x.contiguous().stride(), "the kernel takes contiguous tensors"
            made = torch.sort(x, dim=dim, descending=bool(descending), stable=bool(stable))
            values[0], places[0] = self.to_device(made.values), self.to_device(made.indices)
        except BaseException:  # the caller is C
            traceback.print_exc()
            return 1
        return 0

    def _to_host(self, handle: ctypes.c_void_p) -> torch.Tensor:
        dim, dtype, data = ctypes.c_int64(), ctypes.c_int32(), ctypes.c_void_p()
        sizes, strides = (ctypes.POINTER(ctypes.c_int64)() for _ in range(2))
        for name, place in (("dim", dim), ("dtype", dtype), ("data_ptr", data), ("sizes", sizes), ("strides", strides)):
            self._ok(getattr(self.shims, f"aoti_torch_get_{name}")(handle, ctypes.byref(place)))
        shape, steps = sizes[: dim.value], strides[: dim.value]
        (kind,) = (each for each in DTYPES if getattr(self.shims, f"aoti_torch_dtype_{each}")() == dtype.value)
        made = torch.empty_strided(shape, steps, dtype=getattr(torch, kind))
        if made.numel():
            self._copy(ctypes.c_void_p(made.data_ptr()), data, made.untyped_storage().nbytes())
        return made

    def _copy(self, to: ctypes.c_void_p, source: ctypes.c_void_p, size: int) -> None:
        """Between host and device, whichever is which."""
        self._ok(self.cuda.cudaMemcpy(to, source, ctypes.c_size_t(size), 4))

    def _check(self, function: str, *arguments: Any) -> None:
        self._ok(getattr(self.library, f"AOTInductorModelContainer{function}")(*arguments))

    def _ok(self, status: int) -> None:
        if status:
            raise RuntimeError(f"status {status}")


def main(libraries: Path, folder: Path) -> None:
    launcher = Launcher(libraries, json.loads((folder / "kernels.json").read_text()))
    library = Library(libraries, folder, launcher.runtime, launcher.driver)
    calls = json.loads((folder / "calls.json").read_text())
    for call, count in enumerate(calls):
        inputs = [torch.load(folder / f"in.{call}.{number}.pt") for number in range(count)]
        for number, made in enumerate(library.run(inputs)):
            torch.save(made, folder / f"out.{call}.{number}.pt")
    library.close()
    (folder / "launches.json").write_text(json.dumps(launcher.count))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
