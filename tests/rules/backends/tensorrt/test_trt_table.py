"""Modules of many kinds: TensorRT takes every node, an engine is built, and the lowering agrees with eager mode.

The partition step itself compares the partitioned program and each lowered partition with the module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from modelbuild_rules.backend_api.steps.partition_files import read_partition
from modelbuild_rules.backends.tensorrt.steps.engine.engine import build


class Function(nn.Module):
    """A function of modules and inputs."""

    def __init__(self, function: Callable[..., Any], *modules: nn.Module) -> None:
        super().__init__()
        self.function = function
        self.parts = nn.ModuleList(modules)

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*self.parts, *inputs)


class Attention(nn.Module):
    def __init__(self, width: int = 32, heads: int = 4, whole: bool = True, normed: bool = False) -> None:
        """`whole`: with the dense layers that follow attention in a transformer's block, after a norm if `normed`."""
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        dense = (nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.mlp = nn.Sequential(*([nn.LayerNorm(width)] if normed else []), *dense) if whole else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        qkv = self.qkv(self.norm(x)).view(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, tokens, width))
        return x if self.mlp is None else x + self.mlp(x)


class SplitHeads(nn.Module):
    """The beginning of GPT-2's attention: one product with a bias for query, key and value, or a product and a sum."""

    def __init__(self, form: str = "addmm", shape: tuple[int, ...] = (96,)) -> None:
        super().__init__()
        self.form = form
        self.weight, self.bias = nn.Parameter(torch.randn(32, 96)), nn.Parameter(torch.randn(shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.view(-1, 32)
        if self.form == "addmm":
            made = torch.addmm(self.bias, rows, self.weight)
        elif self.form == "constant first":
            made = self.bias + (rows @ self.weight)[None]
        else:
            made = torch.add(rows @ self.weight, self.bias, alpha=2)
        q, k, v = (each.view(1, -1, 4, 8).transpose(1, 2) for each in made.view(*x.shape[:-1], 96).split(32, 2))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def image(channels: int = 8, size: int = 16) -> torch.Tensor:
    return torch.randn(1, channels, size, size)


BATCH = torch.export.Dim("batch", min=1, max=8)
HIGH = torch.export.Dim("high", min=16, max=64)
WIDE = torch.export.Dim("wide", min=16, max=64)

Case = tuple[Callable[[], nn.Module], Callable[[], tuple[torch.Tensor, ...]], Any]

CASES: Mapping[str, Case] = {
    "depthwise": (
        lambda: nn.Sequential(nn.Conv2d(8, 8, 3, groups=8), nn.BatchNorm2d(8), nn.Hardswish(), nn.Conv2d(8, 4, 1)),
        lambda: (image(),),
        None,
    ),
    "conv_transpose": (
        lambda: nn.Sequential(nn.ConvTranspose2d(8, 4, 2, 2), nn.LeakyReLU(0.1)),
        lambda: (image(),),
        None,
    ),
    "conv1d": (lambda: nn.Sequential(nn.Conv1d(4, 8, 3), nn.ELU()), lambda: (torch.randn(1, 4, 32),), None),
    "conv3d": (lambda: nn.Conv3d(2, 4, 3), lambda: (torch.randn(1, 2, 6, 8, 8),), None),
    "group_norm": (lambda: nn.Sequential(nn.GroupNorm(2, 8), nn.SiLU()), lambda: (image(),), None),
    "instance_norm": (lambda: nn.InstanceNorm2d(8, affine=True), lambda: (image(),), None),
    "prelu": (lambda: nn.PReLU(8), lambda: (image(),), None),
    "bilinear": (
        lambda: Function(lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)),
        lambda: (image(),),
        None,
    ),
    "nearest": (lambda: Function(lambda x: F.interpolate(x, scale_factor=2)), lambda: (image(),), None),
    "grid_sample": (
        lambda: Function(lambda x, grid: F.grid_sample(x, grid, align_corners=False)),
        lambda: (image(), torch.rand(1, 8, 8, 2) * 2 - 1),
        None,
    ),
    "pooling": (
        lambda: nn.Sequential(nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(4), nn.MaxPool2d(2)),
        lambda: (image(),),
        None,
    ),
    "pooling_of_one_image": (
        lambda: Function(
            lambda x: (
                F.max_pool2d(x, 3, 1, 1, ceil_mode=True) + F.avg_pool2d(x, 3, 1, 1),
                F.adaptive_avg_pool2d(x, 4),
                F.max_pool1d(x[0], 2) + F.avg_pool1d(x[0], 2),
                F.max_pool3d(x[None], (1, 2, 2)) + F.avg_pool3d(x[None], (1, 2, 2)),
            )
        ),
        lambda: (image()[0],),
        None,
    ),
    "attention": (lambda: Attention(whole=False), lambda: (torch.randn(1, 8, 32),), None),
    "transformer_block": (Attention, lambda: (torch.randn(1, 8, 32),), None),
    # The numbers that a sum with fewer dimensions adds are in one row, not in each.
    "split_heads": (lambda: SplitHeads(), lambda: (torch.randn(1, 16, 32),), None),
    "split_heads_of_a_sum": (lambda: SplitHeads("add"), lambda: (torch.randn(1, 16, 32),), None),
    # Constants that differ by row.
    "split_heads_rows": (lambda: SplitHeads("addmm", (16, 96)), lambda: (torch.randn(1, 16, 32),), None),
    "split_heads_column": (lambda: SplitHeads("add", (16, 1)), lambda: (torch.randn(1, 16, 32),), None),
    "split_heads_first": (lambda: SplitHeads("constant first", (16, 96)), lambda: (torch.randn(1, 16, 32),), None),
    "transposed_norm": (
        lambda: Function(
            lambda norm, layer, x: layer(norm(x.transpose(1, 2)).transpose(1, 2)), nn.BatchNorm1d(8), nn.Linear(8, 4)
        ),
        lambda: (torch.randn(3, 16, 8),),
        None,
    ),
    "ranks": (
        lambda: Function(
            lambda x: (
                (x + torch.arange(16.0)).maximum(torch.tensor(0.5)) * torch.ones(16, 16)
                - torch.tensor(2, dtype=torch.int32)
            )
        ),
        lambda: (image(),),
        None,
    ),
    "vit_block": (lambda: Attention(normed=True), lambda: (torch.randn(1, 8, 32),), None),
    "attention_fp16": (lambda: Attention().half(), lambda: (torch.randn(1, 8, 32).half(),), None),
    "attention_bf16": (lambda: Attention().bfloat16(), lambda: (torch.randn(1, 8, 32).bfloat16(),), None),
    "embedding": (lambda: nn.Embedding(10, 8), lambda: (torch.arange(6)[None],), None),
    "topk": (lambda: Function(lambda x: torch.topk(x, 5)), lambda: (torch.randn(2, 20),), None),
    "sort": (lambda: Function(lambda x: torch.sort(x, dim=-1)), lambda: (torch.randn(2, 20),), None),
    "scatter_number": (
        lambda: Function(lambda x, i: (x.scatter(1, i, 2.5), (x > 0).scatter(0, i % 2, True))),
        lambda: (torch.randn(2, 4), torch.arange(3).repeat(2, 1)),
        None,
    ),
    "scatter_integer": (
        lambda: Function(lambda x, i: (x.scatter(1, i, 7), x.sum().scatter(0, i[0, 0] * 0, 2))),
        lambda: (torch.arange(8).view(2, 4), torch.arange(3).repeat(2, 1)),
        None,
    ),
    "scatter_larger": (
        lambda: Function(lambda x, i, values: x.scatter(1, i, values)),
        lambda: (torch.randn(2, 4), torch.arange(3).repeat(2, 1), torch.randn(3, 6)),
        None,
    ),
    "gather": (
        lambda: Function(lambda x, i: x.scatter(1, i, x.gather(1, i) * 2)),
        lambda: (torch.randn(4, 8), torch.arange(3).repeat(4, 1)),
        None,
    ),
    "cumsum": (lambda: Function(lambda x: x.cumsum(1)), lambda: (torch.randn(4, 8),), None),
    "einsum": (
        lambda: Function(lambda a, b: torch.einsum("bik,bkj->bij", a, b)),
        lambda: (torch.randn(2, 4, 8), torch.randn(2, 8, 4)),
        None,
    ),
    "pixel_shuffle": (lambda: nn.PixelShuffle(2), lambda: (image(),), None),
    "reflection": (lambda: nn.ReflectionPad2d(2), lambda: (image(),), None),
    "where": (
        lambda: Function(lambda x: torch.where(x > 0, x.clamp(max=1), x.exp() - 1)),
        lambda: (torch.randn(4, 8),),
        None,
    ),
    "lstm": (
        lambda: Function(lambda cell, x: cell(x)[0], nn.LSTM(8, 8, batch_first=True)),
        lambda: (torch.randn(1, 3, 8),),
        None,
    ),
    "integers": (lambda: Function(lambda x: (x // 3) + (x % 5)), lambda: (torch.arange(16)[None],), None),
    "variance": (
        lambda: Function(lambda x: (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)),
        lambda: (torch.randn(4, 8),),
        None,
    ),
    "index": (lambda: Function(lambda x, i: x[i]), lambda: (torch.randn(4, 8), torch.tensor([3, 0])), None),
    "batch": (
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)),
        lambda: (torch.randn(2, 3, 16, 16),),
        ({0: BATCH},),
    ),
    "height_and_width": (
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 2, 3, padding=1)),
        lambda: (torch.randn(1, 3, 32, 32),),
        ({2: HIGH, 3: WIDE},),
    ),
}

SAMPLE = (
    "depthwise",
    "scatter_number",
    "scatter_larger",
    "split_heads",
    "split_heads_rows",
    "transformer_block",
    "topk",
    "batch",
)


@pytest.mark.parametrize(
    "name", [name if name in SAMPLE else pytest.param(name, marks=pytest.mark.exhaustive) for name in CASES]
)
def test_a_module(partition: Callable[..., Any], compiled: Mapping[str, Any], tmp_path: Path, name: str) -> None:
    torch.manual_seed(0)
    module, inputs, dynamic = CASES[name]
    made = partition(module(), inputs(), tmp_path / "made", dynamic=dynamic)
    outside = {op for op, node in made.report.items() if node["backend"] != "tensorrt"}
    assert outside == set()
    for part in made.plan:
        engine = build(read_partition(made.folder / "partitions" / part["id"])[0], compiled)
        assert memoryview(engine.plan).nbytes > 1000
