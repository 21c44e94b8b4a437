"""Operators that draw random numbers, and dropout that is active in evaluation mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from modelbuild_rules.model.steps.exported.random_numbers import random_nodes
from modelbuild_rules.program.steps.lowering.notes import notes

Function = Callable[[Tensor], Any]


class Called(nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function, self.lstm, self.drop = function, nn.LSTM(4, 4, 2, dropout=0.5), nn.Dropout()

    def forward(self, x: Tensor) -> Any:
        return self.function(self, x)


def exported(function: Any) -> Any:
    with torch.no_grad():
        return torch.export.export(Called(function).eval(), (torch.rand(3, 4),), strict=False)


@pytest.mark.parametrize(
    "function",
    [
        lambda m, x: m.drop(x),
        lambda m, x: F.dropout(x, 0.0, training=True),
        lambda m, x: F.alpha_dropout(x, 0.5, training=False),
        lambda m, x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
        lambda m, x: F.rrelu(x),
        lambda m, x: m.lstm(x)[0],
    ],
)
def test_nothing_is_drawn_in_evaluation_mode(function: Any) -> None:
    assert random_nodes(exported(function)) == []


@pytest.mark.parametrize(
    ("function", "operator", "training"),
    [
        (lambda m, x: F.dropout(x, 0.5), "aten.dropout.default", True),
        (lambda m, x: F.alpha_dropout(x, 0.5, training=True), "aten.alpha_dropout.default", True),
        (lambda m, x: F.dropout1d(x, 0.5), "aten.feature_dropout.default", True),
        (
            lambda m, x: F.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=0.1),
            "aten.scaled_dot_product_attention.default",
            True,
        ),
        (lambda m, x: F.rrelu(x, training=True), "aten.rrelu.default", True),
        (lambda m, x: x + torch.rand_like(x), "aten.rand_like.default", False),
        (lambda m, x: torch.bernoulli(x), "aten.bernoulli.default", False),
        (lambda m, x: torch.multinomial(x, 2), "aten.multinomial.default", False),
        (lambda m, x: torch.normal(x, 1.0), "aten.normal.Tensor_float", False),
        (lambda m, x: x.clone().uniform_(), "aten.uniform_.default", False),
        (lambda m, x: torch.cond(x.sum() > 0, torch.rand_like, torch.neg, (x,)), "aten.rand_like.default", False),
    ],
)
def test_random_numbers_are_noted(function: Any, operator: str, training: bool) -> None:
    first, *more = notes(exported(function), [], [])
    assert first.startswith(f"each call has another result: the program draws random numbers ({operator} at ")
    assert [each.partition(" at ")[0] for each in more] == [operator] * training
