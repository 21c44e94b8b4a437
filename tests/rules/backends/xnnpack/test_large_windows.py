"""Depthwise convolutions of windows without a kernel in XNNPACK are sums of convolutions of parts of the window."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from modelbuild_rules.backends.xnnpack.steps.large_windows import parts
from modelbuild_rules.backends.xnnpack.steps.nonfinite import WINDOWS
from tests.rules.backends.xnnpack.comparison import compared, numbers


@pytest.mark.parametrize("window", [(7, 7), (9, 9), (5, 6), (31, 31), (1, 26), (7, 1), (3, 5), (5, 7)])
def test_parts_cover_a_window_once(window: tuple[int, int]) -> None:
    """Only the middle is in several parts."""
    found = parts(*window)
    assert found is not None
    assert {len(each.taps()) for each in found} <= set(WINDOWS)
    taps = Counter(tap for each in found for tap in each.taps())
    assert {*taps} == {*product(*map(range, window))}
    assert {tap for tap, number in taps.items() if number > 1} <= {(window[0] // 2, window[1] // 2)}


@pytest.mark.parametrize("window", [(1, 1), (1, 2), (1, 5), (5, 1)])
def test_windows_without_parts(window: tuple[int, int]) -> None:
    assert parts(*window) is None


def spoiled(x: Tensor) -> Tensor:
    """Return an image with numbers that are not finite, at a corner, an edge and inside."""
    x = x.clone()
    x[:, 0, 0, 0], x[:, 1, 4, -1], x[:, 2, 5, 6] = torch.nan, torch.inf, -torch.inf
    return x


FORMS: dict[str, dict[str, Any]] = {
    "ConvNeXt": {"kernel_size": 7, "padding": 3},
    "without padding or bias": {"kernel_size": 7, "bias": False},
    "less padding than needed for the parts with the same middle": {"kernel_size": 7, "padding": 2},
    "strides": {"kernel_size": 7, "padding": 3, "stride": 2},
    "dilation, and no square": {"kernel_size": (3, 5), "padding": (1, 4), "dilation": (1, 2), "stride": (2, 1)},
    "more padding than pixels": {"kernel_size": (9, 3), "padding": (12, 1)},
    "a square with dilation": {"kernel_size": 7, "padding": 6, "dilation": 2},
    "no square": {"kernel_size": (5, 7), "padding": (2, 3), "stride": 3},
    "a row": {"kernel_size": (1, 7), "padding": (0, 3)},
}


@pytest.mark.parametrize("form", FORMS)
def test_results(form: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Conv2d(3, 3, groups=3, **FORMS[form]), nn.ReLU())
    x = numbers(2, 3, 12, 14)
    made = compared(layers, [(x,), (spoiled(x),)], tmp_path, 1e-5)
    assert made.nodes("portable") == {}


def test_others_are_left_as_they_are(tmp_path: Path) -> None:
    """Several outputs of a group, one channel, and sizes that are not known, the batch's among them."""
    x = numbers(2, 2, 12, 14)
    for layer in (nn.Conv2d(2, 4, 7, groups=2), nn.Conv2d(1, 1, 7)):
        compared(layer, [(x[:, : layer.in_channels],)], tmp_path / str(layer.groups), 1e-5)
    rows = torch.export.Dim("rows", min=8, max=20)
    layer = nn.Conv2d(2, 2, 7, groups=2).eval()
    program = torch.export.export(layer, (x,), dynamic_shapes=({2: rows},))
    compared(program, [(x,), (x[:, :, :9],)], tmp_path / "rows", 1e-5)
    batch = torch.export.Dim("batch", min=1, max=8)
    program = torch.export.export(layer, (x,), dynamic_shapes=({0: batch},))
    compared(program, [(x,), (x[:1],), (numbers(8, 2, 12, 14),), (x,)], tmp_path / "batch", 1e-5)
