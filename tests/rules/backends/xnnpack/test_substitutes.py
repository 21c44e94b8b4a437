"""Operators for which XNNPACK has another form do not split a partition."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.rules.backends.xnnpack.comparison import Form, compared, numbers


def attention(module: nn.Module, x: Tensor) -> Tensor:
    """Return windows' attention, as in a Swin transformer: a roll, one product for queries, keys and values, a mask."""
    mask = x.new_zeros(x.shape[1], x.shape[1])
    mask[:2, 2:], mask[2:, :2] = -100.0, -100.0
    queries, keys, values = module.layer(x.roll(1, 1)).view(2, 5, 3, 2, 4).permute(2, 0, 3, 1, 4)
    scores = (queries @ keys.transpose(-2, -1) + mask.unsqueeze(0)).softmax(-1)
    return (scores @ values).transpose(1, 2).reshape(2, 5, 8).roll(-1, 1)


def test_attention_of_windows_is_one_partition(tmp_path: Path) -> None:
    torch.manual_seed(0)
    made = compared(Form(attention, layer=nn.Linear(6, 24)), [(numbers(2, 5, 6),)], tmp_path, 1e-5)
    assert made.nodes("portable") == {}
    assert "aten.slice_copy.Tensor" in made.nodes("xnnpack")


def attended(module: nn.Module, *x: Tensor, **options: Any) -> Tensor:
    return nn.functional.scaled_dot_product_attention(*(each + 1 for each in x), **options)


INFINITE = torch.tensor([[1e30], [math.inf], [-math.inf], [math.nan], [1.0]])


def test_attention_is_one_partition(tmp_path: Path) -> None:
    """Also of scores that are NaN, infinite, or -inf in all columns."""
    x, huge = numbers(2, 3, 5, 4), numbers(2, 3, 5, 4).abs() * INFINITE
    calls = [(x, x, x), (huge, -x.abs() - 1, x), (huge, x, x), (-huge, huge, x), (x, x, huge)]
    made = compared(Form(attended), calls, tmp_path, 1e-5)
    assert made.nodes("portable").keys() == {"aten.full.default"}


@pytest.mark.parametrize("least", [-math.inf, torch.finfo(torch.float32).min, False])
def test_attention_with_a_mask_of_whole_rows(least: float, tmp_path: Path) -> None:
    x, mask = numbers(2, 3, 5, 4), torch.zeros(5, 5) if least else torch.ones(5, 5, dtype=torch.bool)
    mask[1:3] = least
    calls = [(x, x, x, mask), (x * INFINITE, x, x, mask.flip(0))]
    made = compared(Form(lambda m, *x: attended(m, *x[:3], attn_mask=x[3])), calls, tmp_path, 1e-5)
    assert ("aten.any.dim" in made.nodes("portable")) == bool(least)


def test_causal_attention_is_one_partition(tmp_path: Path) -> None:
    x = numbers(2, 3, 5, 4)
    made = compared(Form(attended_causally), [(x, x, x), (x * INFINITE, x, x)], tmp_path, 1e-5)
    assert "aten.any.dim" not in made.nodes("portable")


def attended_causally(module: nn.Module, *x: Tensor) -> Tensor:
    return attended(module, *x, is_causal=True)


@pytest.mark.parametrize("x", [numbers(3, 4, 5), torch.arange(60).reshape(3, 4, 5), numbers(3, 4, 5).half()])
def test_arrangements(x: Tensor, tmp_path: Path) -> None:
    """Of all types, at each end, of an input and of a result; also of weights, and as outputs."""

    def arranged(module: nn.Module, x: Tensor) -> list[Tensor]:
        y = x + 1
        one = y.select(-3, -1).unsqueeze(0).unsqueeze(2), y.select(2, 0), y[1:2].squeeze(0), y.expand(3, 4, 5)
        products = [torch.ops.aten.mul.Scalar(each, 2.5) for each in (y, y[0, 0, 0], y.long())]
        return [*one, *products, x[0] + 1, x.unsqueeze(1), y.expand(2, 3, 4, 5) * 2, y[:, 0, 0][1] + 1]

    compared(Form(arranged), [(x,)], tmp_path)


def test_sizes_that_are_not_known(tmp_path: Path) -> None:
    """The program runs also without rows."""
    rows = torch.export.Dim("rows", min=0, max=8)
    module = Form(lambda m, x: ((x + 1)[:, 0] * 2, (x + 1).unsqueeze(1) * 2, (x + 1)[-1:].expand(1, 3))).eval()
    program = torch.export.export(module, (numbers(4, 3),), dynamic_shapes={"inputs": ({0: rows},)})
    compared(program, [(numbers(4, 3),), (numbers(7, 3),)], tmp_path)
