"""The programs of benchmarks/gpu/cuda_programs.py, for export and for the processes that run torch.

They are those of tests/rules/backends/cuda/programs.py and the networks of examples/models/nets.py, with weights drawn
from a seed. Inputs and outputs are float32 and integers, in any internal precision.
"""

from __future__ import annotations

import math

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


class Layers(nn.Module):
    """Convolutions and linear layers of ResNets, transformers and mobile networks, each with an input of its own."""

    # Channels, size, outputs, kernel, stride, groups.
    CONVOLUTIONS = (
        *((3, 224, 64, 7, 2, 1), (64, 56, 64, 3, 1, 1), (64, 56, 128, 3, 2, 1), (64, 56, 128, 1, 2, 1)),
        *((128, 28, 128, 3, 1, 1), (128, 28, 256, 3, 2, 1), (256, 14, 256, 3, 1, 1), (256, 14, 512, 3, 2, 1)),
        *((256, 14, 512, 1, 2, 1), (512, 7, 512, 3, 1, 1), (64, 28, 256, 1, 1, 1), (256, 28, 64, 1, 1, 1)),
        *((1024, 14, 256, 1, 1, 1), (2048, 7, 512, 1, 1, 1), (96, 28, 24, 1, 1, 1), (24, 28, 88, 1, 1, 1)),
        *((64, 28, 64, 3, 1, 4), (3, 112, 192, 16, 16, 1)),
    )
    LINEAR = ((197, 768, 768), (49, 3072, 768), (1, 512, 1000), (49, 96, 384))

    def __init__(self) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(
            nn.Conv2d(channels, outputs, kernel, stride, kernel // 2, groups=groups)
            for channels, _, outputs, kernel, stride, groups in self.CONVOLUTIONS
        )
        self.linear = nn.ModuleList(nn.Linear(depth, columns) for _, depth, columns in self.LINEAR)

    @classmethod
    def shapes(cls) -> list[tuple[int, ...]]:
        images = [(1, channels, size, size) for channels, size, *_ in cls.CONVOLUTIONS]
        return [*images, *((rows, depth) for rows, depth, _ in cls.LINEAR)]

    def forward(self, *given: Tensor) -> tuple[Tensor, ...]:
        return tuple(layer(x) for layer, x in zip([*self.convolutions, *self.linear], given, strict=True))


class Stems(Layers):
    """Convolutions of few channels, whose indices an older assembler computed wrongly."""

    CONVOLUTIONS = (
        *((3, 224, 64, 7, 2, 1), (64, 28, 64, 3, 1, 4), (3, 112, 96, 4, 4, 1), (3, 64, 64, 7, 2, 1)),
        *((8, 32, 64, 5, 1, 1), (3, 64, 32, 3, 2, 1)),
    )
    LINEAR = ()


class Halved(nn.Module):
    """Layers in float16, with inputs and outputs in float32."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = Layers().half()

    def forward(self, *given: Tensor) -> tuple[Tensor, ...]:
        return tuple(each.float() for each in self.layers(*(x.half() for x in given)))


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
    "stems": Program(Stems, Stems.shapes(), 1e-5),
    "layers": Program(Layers, Layers.shapes(), 1e-5),
    "layers_tf32": Program(Layers, Layers.shapes(), 1e-2),
    "layers_fp16": Program(Halved, Layers.shapes(), 1e-2),
}
PRECISIONS = {"layers_tf32": "tf32"}
"""The precision of products of float32, if not \"fp32\"."""
STACKS = {"both": '{ type = "xnnpack", exclude_ops = ["aten.sin.default", "aten.mul.Tensor"] }, '}
"""The backends before CUDA in a program's stack."""


def make(name: str) -> nn.Module:
    """Return a program's module. Its random weights are rounded to a few bits, so that they compress for a transfer."""
    torch.manual_seed(0)
    program = ZOO[name]
    module = program.model()
    for parameter in module.parameters():
        parameter.data = rounded(parameter.data, 4)
    return (module if program.dtype == torch.float32 else Whole(module, program.dtype)).eval()


def rounded(values: Tensor, steps: int) -> Tensor:
    """Return values rounded to multiples of a power of two, at least `steps` of which are their deviation."""
    deviation = float(values.std()) if values.numel() > 1 else 0.0
    step = 2.0 ** math.floor(math.log2(deviation / steps)) if deviation else 1.0 / 256
    return (values / step).round() * step


def calls(name: str) -> list[list[Tensor]]:
    """Return the inputs of each call: several numbers of rows for a dynamic program, else `calls` equal shapes."""
    torch.manual_seed(1)
    program = ZOO[name]
    shapes = [program.shapes] * program.calls
    if program.dynamic:
        shapes = [[(rows, *shape[1:]) for shape in program.shapes] for rows in (program.shapes[0][0], 1, 64, 7)]
    scale = 255.0 if name == "nets" else 1.0
    integers = [torch.tensor(each) for each in program.integers]
    return [[rounded(torch.randn(*shape), 16) * scale for shape in each] + integers for each in shapes]
