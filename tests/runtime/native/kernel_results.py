"""Draws inputs of kernels, and compares the C++ runtime's results with eager mode's."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

Run = Callable[..., subprocess.CompletedProcess[str]]
Inputs = Sequence[Tensor]

NAN = float("nan")


def uniform(*shape: int, seed: int = 0, kind: torch.dtype = torch.float32) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=kind) * 2 - 1


def numbers(limit: int, *shape: int, seed: int = 0) -> Tensor:
    return torch.randint(limit, shape, generator=torch.Generator().manual_seed(seed))


def run(modelbuild_run: Run, program: Path, inputs: Inputs, folder: Path, *flags: str) -> list[np.ndarray]:
    given = []
    for number, each in enumerate(inputs):
        np.save(folder / f"in{number}.npy", each.numpy())
        given.append(f"--input=input{number}={folder}/in{number}.npy")
    done = modelbuild_run(program, *given, f"--output-dir={folder}", "--json", *flags)
    assert done.returncode == 0, done.stderr
    return [np.load(output["path"]) for output in json.loads(done.stdout)["outputs"]]


def compare(found: Sequence[np.ndarray], expected: Tensor | Sequence[Tensor], tolerance: float) -> None:
    """Check types, shapes and values of results."""
    wanted = [expected] if isinstance(expected, Tensor) else list(expected)
    assert len(found) == len(wanted)
    for have, want in zip(found, wanted, strict=True):
        assert (have.dtype, have.shape) == (want.numpy().dtype, tuple(want.shape))
        np.testing.assert_allclose(have, want.numpy(), rtol=tolerance, atol=tolerance)
