"""Resampling against PyTorch's own operators."""

from __future__ import annotations

import pytest
import torch
from models.resample import area_weights, crops, shrunk
from torch.nn import functional


@pytest.fixture
def image() -> torch.Tensor:
    """(1, 3, 64, 64), 0..255."""
    return torch.rand(1, 3, 64, 64, generator=torch.Generator().manual_seed(0)) * 255


@pytest.mark.parametrize("target", [1, 7, 16, 20, 33, 63, 64])
def test_shrinking_is_area_interpolation(image: torch.Tensor, target: int) -> None:
    ours = shrunk(image, area_weights(64, target))
    torch.testing.assert_close(ours, functional.interpolate(image, size=target, mode="area"))


def test_shrinking_keeps_axes_apart() -> None:
    image = torch.zeros(1, 1, 8, 8)
    image[..., 0, :] = 1  # the first row, not the first column
    assert shrunk(image, area_weights(8, 4))[0, 0, 0].tolist() == [0.5] * 4


def test_a_crop_of_whole_pixels_at_its_own_size_is_a_slice(image: torch.Tensor) -> None:
    ours = crops(image, torch.tensor([[8.0, 4, 32, 28], [0, 40, 24, 64]]), 24, samples=1)
    torch.testing.assert_close(ours, torch.cat([image[..., 4:28, 8:32], image[..., 40:64, 0:24]]), rtol=0, atol=1e-3)


def test_a_crop_at_half_size_is_area_interpolation(image: torch.Tensor) -> None:
    ours = crops(image, torch.tensor([[5.0, 9, 53, 57]]), 24)
    expected = functional.interpolate(image[..., 9:57, 5:53], size=24, mode="area")
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-3)


def test_an_enlarged_crop_is_bilinear_inside(image: torch.Tensor) -> None:
    """Compare away from the border, where interpolate() repeats the crop's edge and crops() sees the surrounding
    image."""
    ours = crops(image, torch.tensor([[20.0, 30, 30, 40]]), 30, samples=1)
    expected = functional.interpolate(image[..., 30:40, 20:30], size=30, mode="bilinear", align_corners=False)
    torch.testing.assert_close(ours[..., 2:-2, 2:-2], expected[..., 2:-2, 2:-2], rtol=0, atol=1e-2)


def test_outside_the_image_is_zero() -> None:
    image = torch.ones(1, 3, 64, 64)
    left, far = crops(image, torch.tensor([[-24.0, 8, 24, 56], [100, 100, 148, 148]]), 24)
    assert left[..., :11].eq(0).all()
    assert left[..., 13:].eq(1).all()
    assert far.eq(0).all()


def test_an_empty_box_gives_finite_pixels(image: torch.Tensor) -> None:
    assert crops(image, torch.zeros(1, 4), 24).isfinite().all()
