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
from modelbuild_rules.model.steps.eager.sizes import example_sizes

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
    sizes = example_sizes(declared, dynamic, {index: list(tensor.shape) for index, tensor in read.items()})
    return tuple(
        read[index] if index in read else _drawn(each, sizes, torch.Generator().manual_seed(seed + index))
        for index, each in enumerate(declared)
    )


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
            # Mapped, so that a header with a false size allocates no more memory than the file's size.
            found = torch.from_numpy(np.array(np.load(path, mmap_mode="r", allow_pickle=False)))
    except Exception as error:
        raise StepError(f"{path.name}: cannot be read as a tensor: {first_line(error)}") from error
    if not isinstance(found, torch.Tensor):
        raise StepError(f"{path.name}: expected a tensor, got a {type(found).__name__}")
    if found.is_complex():
        raise StepError(
            f"{path.name}: expected real numbers, got {found.dtype}; a program has pairs of numbers in place of complex"
            " inputs: torch.view_as_complex in forward"
        )
    if found.layout != torch.strided or found.is_quantized:
        raise StepError(f"{path.name}: expected a dense tensor of plain numbers, got {found.dtype}, {found.layout}")
    return found
