"""The programs of benchmarks/gpu/cuda_programs.py, for export and for the processes that run torch.

They are those of tests/rules/backends/cuda/programs.py and the networks of examples/models/nets.py, with weights drawn
from a seed. Inputs and outputs are float32 and integers, in any internal precision.
"""

from __future__ import annotations

import torch
from nets import OutputNet, ProposalNet, RefinementNet
from programs import PROGRAMS, Program
from torch import Tensor, nn


class Nets(nn.Module):
    """The detector's three networks in one module."""

    def __init__(self) -> None:
        super().__init__()
        self.proposal, self.refinement, self.output = ProposalNet(), RefinementNet(), OutputNet()

    def forward(self, image: Tensor, small: Tensor, large: Tensor) -> tuple[Tensor, ...]:
        return (*self.proposal(image), *self.refinement(small), *self.output(large))


class Whole(nn.Module):
    """A module that computes in another type than float32."""

    def __init__(self, inner: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.inner, self.dtype = inner.to(dtype), dtype

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x.to(self.dtype)).float()


ZOO = {
    **{name: program for name, program in PROGRAMS.items() if name not in ("mlp_fp16", "attention")},
    "nets": Program(Nets, [(1, 3, 96, 96), (16, 3, 24, 24), (8, 3, 48, 48)], 1e-3),
}
STACKS = {"both": '{ type = "xnnpack", exclude_ops = ["aten.sin.default", "aten.mul.Tensor"] }, '}
"""The backends before CUDA in a program's stack."""


def make(name: str) -> nn.Module:
    """Return a program's module. Its random weights are rounded to bfloat16, so that they compress for a transfer."""
    torch.manual_seed(0)
    program = ZOO[name]
    module = program.model()
    for parameter in module.parameters():
        parameter.data = parameter.data.bfloat16().to(parameter.dtype)
    return (module if program.dtype == torch.float32 else Whole(module, program.dtype)).eval()


def calls(name: str) -> list[list[Tensor]]:
    """Return the inputs of each call: several numbers of rows for a dynamic program, else `calls` equal shapes."""
    torch.manual_seed(1)
    program = ZOO[name]
    shapes = [program.shapes] * program.calls
    if program.dynamic:
        shapes = [[(rows, *shape[1:]) for shape in program.shapes] for rows in (program.shapes[0][0], 1, 64, 7)]
    scale = 255.0 if name == "nets" else 1.0
    integers = [torch.tensor(each) for each in program.integers]
    return [[torch.randn(*shape) * scale for shape in each] + integers for each in shapes]
