"""Products with a stored weight that is transposed: what executorch leaves of linear layers for a second backend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.rules.backends.xnnpack.comparison import Form, compared, numbers

FORMS: dict[str, Any] = {
    "addmm": lambda m, x, y: torch.addmm(m.bias, x, m.weight.T),
    "mm": lambda m, x, y: x @ m.weight.T,
    "with an activation": lambda m, x, y: torch.addmm(m.bias, x, m.weight.T).relu(),
    "of inputs with three dimensions": lambda m, x, y: torch.stack([x, y]) @ m.weight.T + m.bias,
    "with one weight": lambda m, x, y: (x @ m.weight.T, torch.addmm(m.bias, y, m.weight.T), x[:, :5] @ m.weight),
    "with negative axes": lambda m, x, y: x @ m.weight.permute(-1, -2),
}


@pytest.mark.parametrize("name", FORMS)
def test_results(name: str, tmp_path: Path) -> None:
    weight, bias = nn.Parameter(numbers(5, 8)), nn.Parameter(numbers(5))
    x, y = numbers(3, 8), numbers(8, 3).T.contiguous()
    spoiled = x.clone()
    spoiled[0, 1], spoiled[2, 3] = torch.nan, torch.inf
    calls = [(x, y), (spoiled, y), (y, x), (x, y)]
    made = compared(Form(FORMS[name], weight=weight, bias=bias), calls, tmp_path, 1e-5)
    assert {"aten.addmm.default", "aten.mm.default"}.isdisjoint(made.nodes("portable"))


OTHERS: dict[str, Any] = {
    "an input": lambda m, x, y: x @ y.T,
    "with other uses": lambda m, x, y: (lambda transposed: (x @ transposed, transposed * 2))(m.weight.T),
}


@pytest.mark.parametrize("name", OTHERS)
def test_weights_that_are_left_to_others(name: str, tmp_path: Path) -> None:
    calls = [(numbers(3, 8), numbers(5, 8)), (numbers(3, 8) * 2, numbers(5, 8) - 1)]
    made = compared(Form(OTHERS[name], weight=nn.Parameter(numbers(5, 8))), calls, tmp_path, 1e-5)
    assert "aten.mm.default" in made.nodes("portable")
