"""Decompositions of operators that the CUDA delegate lacks, beside eager mode."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from modelbuild_rules.backends.cuda.steps.generate.data_dependent import distinct, distinct_consecutive
from modelbuild_rules.backends.cuda.steps.generate.decompositions import sorts, topk


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
@pytest.mark.parametrize(
    ("shape", "count", "dim"), [((500,), 100, 0), ((3, 200, 4), 65, 1), ((7, 6), 6, -1), ((), 1, 0)]
)
def test_topk_by_a_sort(shape: tuple[int, ...], count: int, dim: int, dtype: torch.dtype) -> None:
    x = (torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 1e6).to(dtype)
    for largest in (True, False):
        for found, expected in zip(topk(x, count, dim, largest), torch.topk(x, count, dim, largest), strict=True):
            assert torch.equal(found, expected)


@pytest.mark.parametrize(
    ("count", "row", "dtype", "expected"),
    [
        (64, 4096, torch.float32, False),
        (65, 4096, torch.float32, True),
        (64, 4097, torch.float32, True),
        (1, 8, torch.float16, False),
        (1, 8, torch.int64, True),
        (1, 8, torch.int32, True),
        (1, 8, torch.uint8, False),
    ],
)
def test_which_topk_is_a_sort(count: int, row: int, dtype: torch.dtype, expected: bool) -> None:
    class Topk(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.topk(x, count, dim=0)[1]

    nodes = torch.export.export(Topk(), (torch.zeros(row, 3, dtype=dtype),)).graph.nodes
    assert [sorts(node) for node in nodes if node.op == "call_function" and "topk" in str(node.target)] == [expected]


def test_a_topk_of_rows_of_any_length_is_a_sort() -> None:
    class Topk(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.topk(x, 3)[0]

    rows = torch.export.Dim("rows", min=3, max=100)
    nodes = torch.export.export(Topk(), (torch.zeros(2, 8),), dynamic_shapes=({1: rows},)).graph.nodes
    assert [sorts(node) for node in nodes if node.op == "call_function" and "topk" in str(node.target)] == [True]


VALUES = torch.tensor([2, torch.nan, -1, 2, 2, torch.inf, -0.0, 0.0, torch.nan, -torch.inf, 1, 1])


@pytest.mark.parametrize("how", [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize(
    "x",
    [
        *(VALUES, VALUES.half().reshape(3, 4), VALUES.bfloat16(), VALUES[:0], VALUES[1:2], torch.tensor(3.0)),
        *(torch.tensor([5, -9, 5, 2**40]), torch.tensor([200, 3, 200], dtype=torch.uint8), VALUES > 0),
    ],
    ids=lambda x: f"{x.dtype}{list(x.shape)}".removeprefix("torch."),
)
def test_distinct_values(x: Tensor, how: tuple[bool, bool]) -> None:
    pairs = [(distinct(x, True, *how), torch.ops.aten._unique2(x, True, *how))]
    pairs.append((distinct_consecutive(x, *how), torch.ops.aten.unique_consecutive(x, *how)))
    for found, expected in pairs:
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)
