"""Lower a module for XNNPACK and portable kernels, and compare its program with eager mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from executorch.extension.pybindings._C import _load_for_executorch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.utils import _pytree

from tests.rules.program.conftest import Lowered, run_steps


class Form(nn.Module):
    """A function of parts and inputs."""

    def __init__(self, function: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(self, *inputs)


def numbers(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def normalization(kind: type[nn.Module], channels: int, affine: bool = True) -> nn.Module:
    """Return a batch normalization with statistics, weights and biases other than the initial ones."""
    made: Any = kind(channels, affine=affine)
    made.running_mean.uniform_(-0.5, 0.5)
    made.running_var.uniform_(0.5, 2.0)
    for each in (made.weight, made.bias) if affine else ():
        nn.init.uniform_(each, 0.5, 1.5)
    return made


def compared(
    given: nn.Module | ExportedProgram,
    calls: Sequence[tuple[Tensor, ...]],
    folder: Path,
    tolerance: float | None = None,
    **xnnpack: Any,
) -> Lowered:
    """Lower and run a module; raise AssertionError for other results than in eager mode."""
    if isinstance(given, nn.Module):
        given = torch.export.export(given.eval().requires_grad_(False), calls[0])
    made = run_steps(given, folder / "made", xnnpack)
    program = _load_for_executorch(str(made.pte))
    for call in calls:
        found, wanted = program.forward([each.clone() for each in call]), given.module()(*call)
        for one, other in zip(found, _pytree.tree_leaves(wanted), strict=True):
            near = {} if tolerance is None else {"rtol": tolerance, "atol": tolerance}
            torch.testing.assert_close(one, other, equal_nan=True, **near)
    return made
