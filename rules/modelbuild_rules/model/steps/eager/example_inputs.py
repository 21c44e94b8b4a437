"""Read example inputs from files, or draw them from a seeded generator.

Floating-point values are uniform in [lowest, highest), integers uniform in [lowest, highest], and booleans true with
probability 1/2. Input number i is drawn from torch's CPU generator seeded with seed + i.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from modelbuild.step import StepError
from modelbuild_rules.model.steps.eager.entry import first_line, load_pickle

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import DeclaredInput, DynamicDimension

DEFAULT_RANGE = (0.0, 1.0)


def example_inputs(
    declared: Sequence[DeclaredInput],
    dynamic: Mapping[str, DynamicDimension],
    seed: int,
    files: Mapping[str, tuple[Path, ...]],
) -> tuple[torch.Tensor, ...]:
    """Return a tensor for each declared input. Raises StepError for a file that does not match its declaration."""
    read = {
        index: _from_file(files[f"example.{index}"][0], each)
        for index, each in enumerate(declared)
        if f"example.{index}" in files
    }
    sizes = _sizes(declared, dynamic, read)
    return tuple(
        read[index] if index in read else _drawn(each, sizes, torch.Generator().manual_seed(seed + index))
        for index, each in enumerate(declared)
    )


def _sizes(
    declared: Sequence[DeclaredInput], dynamic: Mapping[str, DynamicDimension], read: Mapping[int, torch.Tensor]
) -> dict[str, int]:
    """Return the example size of each named dimension: as declared, else from the files, else 2 or the nearest."""
    sizes = {name: int(bounds["example"]) for name, bounds in dynamic.items() if bounds["example"] is not None}
    for index, tensor in read.items():
        name = declared[index]["name"]
        for dimension, size in zip(declared[index]["shape"] or (), tensor.shape, strict=False):
            if not isinstance(dimension, str):
                continue
            low, high = dynamic[dimension]["min"], dynamic[dimension]["max"]
            if not low <= size <= high:
                raise StepError(f"input '{name}': '{dimension}' is {size} in its file; expected {low} to {high}")
            if sizes.setdefault(dimension, size) != size:
                raise StepError(f"input '{name}': '{dimension}' is {size} in its file, {sizes[dimension]} elsewhere")
    # Avoid 0 and 1: torch.export treats these sizes as constants.
    return {name: min(max(2, bounds["min"]), bounds["max"]) for name, bounds in dynamic.items()} | sizes


def _drawn(each: DeclaredInput, sizes: Mapping[str, int], generator: torch.Generator) -> torch.Tensor:
    shape = [sizes[size] if isinstance(size, str) else size for size in each["shape"] or ()]
    try:
        return _draw(each, shape, generator)
    except (MemoryError, RuntimeError, TypeError, ValueError) as error:  # too large for memory or for torch
        raise StepError(f"input '{each['name']}': no example of shape {shape}: {first_line(error)}") from error


def _draw(each: DeclaredInput, shape: list[int], generator: torch.Generator) -> torch.Tensor:
    dtype = getattr(torch, str(each["dtype"]))
    low, high = each["range"] or DEFAULT_RANGE
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if not dtype.is_floating_point:
        return torch.randint(int(low), int(high) + 1, shape, generator=generator).to(dtype)
    return (torch.rand(shape, generator=generator, dtype=torch.float64) * (high - low) + low).to(dtype)


def _from_file(path: Path, each: DeclaredInput) -> torch.Tensor:
    found = _read(path)
    shape = each["shape"]
    sizes = list(found.shape)
    fits = shape is None or (
        len(shape) == len(sizes) and all(isinstance(a, str) or a == b for a, b in zip(shape, sizes, strict=True))
    )
    if not fits:
        raise StepError(f"input '{each['name']}': {path.name} has the shape {sizes}; expected {shape}")
    return found


def _read(path: Path) -> torch.Tensor:
    try:
        if path.suffix == ".pt":
            found = load_pickle(path)
        elif path.suffix == ".png":
            from PIL import Image

            with Image.open(path, formats=("PNG",)) as picture:
                found = torch.from_numpy(np.array(picture.convert("RGB")))
        else:
            # Mapped, so that a header with a false size allocates no more than the file has.
            found = torch.from_numpy(np.array(np.load(path, mmap_mode="r", allow_pickle=False)))
    except Exception as error:
        raise StepError(f"{path.name}: cannot be read as a tensor: {first_line(error)}") from error
    if not isinstance(found, torch.Tensor):
        raise StepError(f"{path.name}: expected a tensor, got a {type(found).__name__}")
    if found.layout != torch.strided or found.is_quantized or found.is_complex():
        raise StepError(f"{path.name}: expected a dense tensor of plain numbers, got {found.dtype}, {found.layout}")
    return found
