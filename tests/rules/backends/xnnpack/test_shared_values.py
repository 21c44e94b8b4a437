"""A constant that several operators of a partition read is right for each of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch.nn.functional as F
from torch import Tensor, nn

from tests.rules.backends.xnnpack.comparison import Form, compared, normalization, numbers

IMAGE, ROWS, LINE = numbers(1, 4, 8, 8), numbers(5, 8), numbers(1, 4, 9)
conv = lambda **rest: nn.Conv2d(4, 4, 3, **rest)  # noqa: E731
norm = lambda kind=nn.BatchNorm2d: normalization(kind, 4)  # noqa: E731


def twice(m: Any, x: Tensor) -> Any:
    return m.one(m.layer(x)), m.two(m.layer(x))


FORMS: dict[str, tuple[Callable[..., Any], Tensor, dict[str, Callable[[], Any]]]] = {
    "norms": (twice, IMAGE, {"layer": conv, "one": norm, "two": norm}),
    "norms_without_bias": (twice, IMAGE, {"layer": lambda: conv(bias=False), "one": norm, "two": norm}),
    "norms_of_linear": (
        twice,
        ROWS,
        {
            "layer": lambda: nn.Linear(8, 4),
            "one": lambda: norm(nn.BatchNorm1d),
            "two": lambda: norm(nn.BatchNorm1d),
        },
    ),
    "one_norm": (lambda m, x: m.norm(m.norm(x).sigmoid()), IMAGE, {"norm": norm}),
    "transposed_convolution": (
        lambda m, x: (m.layer(x), F.conv_transpose2d(x, m.layer.weight)),
        IMAGE,
        {"layer": conv},
    ),
    "transposed_weight": (
        lambda m, x: F.linear(m.layer(x), m.layer.weight.t()),
        ROWS,
        {"layer": lambda: nn.Linear(8, 4)},
    ),
    "bias": (lambda m, x: (m.layer(x), x + m.layer.bias[:, None, None]), IMAGE, {"layer": conv}),
    "product": (lambda m, x: (m.layer(x), m.layer.weight * 2), IMAGE, {"layer": conv}),
    "sum": (lambda m, x: (m.layer(x), m.layer.weight + x[:, :, :3, :3]), IMAGE, {"layer": conv}),
    "linear_sum": (lambda m, x: (m.layer(x), m.layer.weight + x[:4]), ROWS, {"layer": lambda: nn.Linear(8, 4)}),
    "cosine": (
        lambda m, x: m.layer(x) + F.linear(F.normalize(x), F.normalize(m.layer.weight)),
        ROWS,
        {"layer": lambda: nn.Linear(8, 4)},
    ),
    "line": (lambda m, x: (m.layer(m.layer(x)), m.layer.weight * 2), LINE, {"layer": lambda: nn.Conv1d(4, 4, 3)}),
    "prelu": (lambda m, x: m.prelu(x) + m.prelu.weight[:, None, None], IMAGE, {"prelu": lambda: nn.PReLU(4)}),
    "twice_in_one": (lambda m, x: x + m.layer.weight * m.layer.weight, numbers(4, 4, 3, 3), {"layer": conv}),
}


@pytest.mark.sampled
@pytest.mark.parametrize("form", FORMS)
def test_a_constant_with_several_readers(form: str, tmp_path: Path) -> None:
    function, x, parts = FORMS[form]
    compared(Form(function, **{name: part() for name, part in parts.items()}), [(x,)], tmp_path)
