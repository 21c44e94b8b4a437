"""Weights of a serialized program: one file of raw bytes per tensor, mapped into memory when read. The table of tensors
is part of the program's structure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from modelbuild_rules.model.steps.exported.sources import source

Json = Any
STRUCTURE = "program.json"
"""The file of a program's structure, whose `tensors` are their table."""


SOURCE = ".source"
"""The suffix of a file that has, instead of a tensor's bytes, the name of another file with them."""
VALUES = "values"
"""The folder, in a program's structure, of the values that may decide how it is lowered, under their names."""


def write_tensors(tensors: Mapping[str, torch.Tensor], folder: Path) -> list[Json]:
    """Write each tensor's bytes under `folder` as 0, 1, ... and return their table.

    Names of the same tensor object share a file. Strides are kept; skipped elements are written as zeros, so equal
    tensors give equal files. Raises ValueError for a tensor that is not a plain, strided CPU tensor.
    """
    table: list[Json] = []
    written: dict[Any, str] = {}
    for name, tensor in tensors.items():
        known = source(tensor)
        if known is None:
            _check(name, tensor)
        stride, _ = _layout(tensor)
        place = tensor.untyped_storage().data_ptr() if known is None else known
        key = (place, tensor.storage_offset(), tensor.dtype, tuple(tensor.shape), stride)
        if key not in written or tensor.numel() == 0:
            written[key] = str(len(set(written.values())))
            if known is None:
                write_tensor(tensor, folder / written[key])
            else:
                (folder / f"{written[key]}{SOURCE}").write_text(known)
        table.append(
            {
                "name": name,
                "file": written[key],
                "dtype": str(tensor.dtype).removeprefix("torch."),
                "shape": list(tensor.shape),
                "stride": list(stride),
            }
        )
    return table


def weights_of(structure_dir: Path, weights_dir: Path) -> dict[str, torch.Tensor]:
    """Return a program's tensors by name, without reading its graph."""
    return read_tensors(json.loads((structure_dir / STRUCTURE).read_text(encoding="utf-8"))["tensors"], weights_dir)


def files_of(structure_dir: Path, weights_dir: Path) -> dict[str, torch.Tensor]:
    """Return a program's tensors by the names of their files."""
    table = json.loads((structure_dir / STRUCTURE).read_text(encoding="utf-8"))["tensors"]
    return read_tensors([{**entry, "name": entry["file"]} for entry in table], weights_dir)


def read_tensors(table: list[Json], folder: Path | None) -> dict[str, torch.Tensor]:
    """Return the tensors of a table, mapped from their files; writing to a tensor changes no file. Without a folder,
    they are on the device `meta`: they have no values."""
    found: dict[str, torch.Tensor] = {}
    by_file: dict[str, torch.Tensor] = {}
    for entry in table:
        name = entry["file"]
        if name not in by_file:
            by_file[name] = _read(
                folder and folder / name, getattr(torch, entry["dtype"]), entry["shape"], entry["stride"]
            )
        found[entry["name"]] = by_file[name]
    return found


def _check(name: str, tensor: torch.Tensor) -> None:
    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) or isinstance(tensor, torch.nn.Buffer)
    if not plain or tensor.is_quantized or tensor.layout != torch.strided:
        raise ValueError(f"the tensor '{name}' ({type(tensor).__name__}, {tensor.dtype}, {tensor.layout}) is not plain")
    if tensor.device.type != "cpu":
        raise ValueError(f"the tensor '{name}' is on {tensor.device}; expected a program's weights on the CPU")


def _layout(tensor: torch.Tensor) -> tuple[tuple[int, ...], int]:
    """Return canonical strides (contiguous tensors get the default strides, whatever the strides of their dimensions of
    size 1) and the number of elements from the first to the last, skipped elements included."""
    if tensor.is_contiguous():
        return tuple(torch.empty(tensor.shape, device="meta").stride()), tensor.numel()
    span = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tuple(tensor.stride()), span


def write_tensor(tensor: torch.Tensor, path: Path) -> None:
    """Write a tensor's bytes, with canonical strides."""
    tensor = tensor.detach()
    stride, span = _layout(tensor)
    if span == tensor.numel():  # no element is skipped: write the memory unchanged
        flat = tensor.as_strided((span,), (1,))
    else:
        flat = torch.zeros(span, dtype=tensor.dtype)
        if 0 in stride:  # elements that share memory may be written only once
            shape = [1 if s == 0 else size for size, s in zip(tensor.shape, stride, strict=True)]
            tensor = tensor.as_strided(shape, stride)
        flat.as_strided(tensor.shape, stride).copy_(tensor)
    with path.open("wb") as file:
        if span:
            file.write(memoryview(flat.view(torch.uint8).numpy()))


def _read(path: Path | None, dtype: torch.dtype, shape: list[int], stride: list[int]) -> torch.Tensor:
    if path is None:
        return torch.empty_strided(shape, stride, dtype=dtype, device="meta")
    size = path.stat().st_size
    if size == 0:
        return torch.empty_strided(shape, stride, dtype=dtype)
    flat = torch.from_file(str(path), shared=False, size=size, dtype=torch.uint8)
    return flat.view(dtype).as_strided(shape, stride)
