"""Runs a library on the emulator as ExecuTorch's CUDA delegate does: `run_library.py LIBRARIES FOLDER`.

FOLDER has library.so, compiled/, kernels.json, in.<n>.pt; out.<call>.<n>.pt are written. Without torch's CUDA.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"
import torch
from device import Device
from emulator import Launcher


class NamedTensor(ctypes.Structure):
    """A constant, as AOTInductor takes it."""

    _fields_ = (("name", ctypes.c_char_p), ("tensor", ctypes.c_void_p))


class Library(Device):
    """An AOTInductor library and the shims that it calls."""

    def __init__(self, libraries: Path, folder: Path, cuda: ctypes.CDLL, driver: ctypes.CDLL) -> None:
        super().__init__(libraries, cuda, driver)
        self.stream = ctypes.c_void_p()
        self.ok(cuda.cudaStreamCreate(ctypes.byref(self.stream)))
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
                place = self.allocate(place, len(named[key]))
            layout = [[int(each) for each in text.split(",") if each != "-"] for text in (sizes, strides)]
            yield NamedTensor(name.encode(), self.tensor(place, *layout, int(offset), int(dtype), kind)), data

    def run(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        made = self.launch([self.to_device(each) for each in inputs])
        self.ok(self.cuda.cudaStreamSynchronize(self.stream))
        outputs = [self.to_host(ctypes.c_void_p(each)).contiguous() for each in made]
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
            self.ok(self.shims.aoti_torch_delete_tensor_object(ctypes.c_void_p(each)))

    def close(self) -> None:
        self._check("Delete", self.handle)

    def _check(self, function: str, *arguments: Any) -> None:
        self.ok(getattr(self.library, f"AOTInductorModelContainer{function}")(*arguments))


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
