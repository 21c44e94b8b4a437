"""Decompositions of detectors' operators, on a CPU, beside torchvision's. The kernels of suppression are emulated in
test_cuda_whole_programs.py."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

pytest.importorskip("torchvision")
import torchvision

from modelbuild_rules.backends.cuda.steps.generate import data_dependent, detection
from modelbuild_rules.backends.cuda.steps.generate.lowerings.suppression import overlaps, suppression
from modelbuild_rules.operators.steps import detection_operators

INF, NAN = math.inf, math.nan


@suppression.register_kernel("cpu")  # type: ignore[untyped-decorator]
def _suppression(suppressed: Tensor) -> Tensor:
    """Decide on one box after another."""
    bits = (suppressed[:, :, None] >> torch.arange(32)) & 1
    kept = torch.zeros(bits.shape[1] * 32, dtype=torch.int32)
    for box, by in enumerate(bits.flatten(1)):
        assert not by[box:].any(), "only better boxes"
        kept[box] = not (by & kept).any()
    return kept[: len(suppressed)]


@overlaps.register_kernel("cpu")  # type: ignore[untyped-decorator]
def _overlaps(boxes: Tensor, classes: Tensor | None, apart: Tensor | None, bound: float, half: float) -> Tensor:
    """Compare all pairs of boxes with the operations of the kernel."""
    best, other = ([each.unsqueeze(dim) for each in boxes.unbind(1)] for dim in (0, 1))
    greatest = [torch.where(a < b, b, a) for a, b in zip(best[:2], other[:2], strict=True)]
    least = [torch.where(b < a, b, a) for a, b in zip(best[2:], other[2:], strict=True)]
    sides = [torch.where(low < high, high - low, 0.0) for low, high in zip(greatest, least, strict=True)]
    shared = sides[0] * sides[1]
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (best, other)]
    union = areas[0] + areas[1] - shared
    rest = (shared.double() - union.double() * bound).float()  # the product has 48 bits
    hidden = ((rest > union * half) & (union >= 0)).tril(-1)
    if classes is not None:
        assert apart is not None
        hidden = hidden & (apart | (classes[:, None] == classes))
    words = torch.nn.functional.pad(hidden, (0, -len(boxes) % 32)).unflatten(1, ((len(boxes) + 31) // 32, 32))
    return (words.to(torch.int32) << torch.arange(32)).sum(2, dtype=torch.int32)


@pytest.fixture(autouse=True)
def operators() -> None:
    detection_operators.register()


def boxes_of(count: int, seed: int, scale: float) -> Tensor:
    drawn = torch.randn(count, 4, generator=torch.Generator().manual_seed(seed)) * scale
    return torch.cat([drawn[:, :2], drawn[:, :2] + drawn[:, 2:].abs()], 1)


SPECIAL = torch.tensor(
    [
        *([0, 0, 2, 2], [0, 0, 2, 2], [0, 0, 2, 1], [0, 0, 1, 2], [0, 1, 2, 2], [5, 5, 5, 5], [5, 5, 5, 5]),
        *([3, 3, 1, 1], [3, 3, 1, 4], [0, 0, INF, 1], [-INF, 0, 1, 1], [NAN, 0, 2, 2], [0, 0, 2, NAN]),
        *([-INF, -INF, INF, INF], [0, 0, 3e38, 3e38], [0, 0, 1e-30, 1e-30], [0.0, 0, 0.1, 0.3]),
    ]
)


@pytest.mark.parametrize("threshold", [0.0, 0.1, 1 / 3, 0.5, 0.7, 1.0])
def test_nms_keeps_the_same_boxes(threshold: float) -> None:
    for seed in range(10):
        boxes = boxes_of(60, seed, 1.0 + seed)
        scores = torch.randn(60, generator=torch.Generator().manual_seed(seed)).round(decimals=1)  # some are equal
        assert torch.equal(detection.nms(boxes, scores, threshold), torchvision.ops.nms(boxes, scores, threshold))


@pytest.mark.parametrize("threshold", [0.25, 0.5, 0.99])
def test_nms_of_boxes_that_are_no_rectangles(threshold: float) -> None:
    scores = torch.tensor([1.0, 1.0, NAN, 0.5, INF, -INF, NAN] * 2 + [0.0, -0.0, 3.0])
    assert torch.equal(detection.nms(SPECIAL, scores, threshold), torchvision.ops.nms(SPECIAL, scores, threshold))


def test_overlaps_of_exactly_the_threshold_are_kept() -> None:
    """Of integers, and of numbers whose quotient is next to a threshold that is no float32."""
    sides = torch.arange(1.0, 200).repeat(3)
    for threshold in (0.1, 0.3, 0.5, 0.7, 2 / 3):
        shared = (sides * threshold).nextafter(sides + torch.tensor([-1e9, 0.0, 1e9]).repeat_interleave(199))
        first = torch.stack([sides * 0, sides * 0, sides, sides * 0 + 1], 1)
        second = torch.stack([sides * 0, sides * 0, shared, sides * 0 + 1], 1)
        for pair in zip(first, second, strict=True):
            boxes, scores = torch.stack(pair), torch.tensor([2.0, 1.0])
            assert torch.equal(detection.nms(boxes, scores, threshold), torchvision.ops.nms(boxes, scores, threshold))


@pytest.mark.parametrize("count", [0, 1, 31, 64, 1000, 1001])
def test_batched_nms_keeps_the_same_boxes(count: int) -> None:
    boxes, scores = boxes_of(count, 0, 20.0), torch.randn(count, generator=torch.Generator().manual_seed(1))
    classes = torch.randint(0, 4, (count,), generator=torch.Generator().manual_seed(2))
    found = detection.batched_nms(boxes, scores, classes, 0.3)
    assert torch.equal(found, torch.ops.modelbuild_kernels.batched_nms(boxes, scores, classes, 0.3))


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("samples", [0, 1, 2, 3])
def test_roi_align(samples: int, aligned: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    image = torch.randn(2, 3, 9, 13, generator=generator)
    boxes = boxes_of(40, 1, 30.0) + 10
    rois = torch.cat([torch.randint(0, 2, (40, 1), generator=generator).float(), boxes], 1)
    found = detection.roi_align(image, rois, 0.5, 4, 5, samples, aligned)
    expected = torchvision.ops.roi_align(image, rois, (4, 5), 0.5, samples, aligned)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    decomposed = detection.detection_decompositions()[torch.ops.torchvision.roi_align.default]
    assert (decomposed(image, rois, 0.5, 4, 5, samples, aligned) is NotImplemented) == (samples == 0)


def test_regions_and_offsets_that_are_not_finite_read_nothing_outside() -> None:
    rois = torch.tensor([[0.0, NAN, 0, 2, 2], [0, -INF, 0, 2, INF], [7, 0, 0, 2, 2], [-3, 0, 0, 2, 2]])
    assert detection.roi_align(torch.ones(1, 1, 4, 4), rois, 1.0, 2, 2, 2, False).shape == (4, 1, 2, 2)
    offset = torch.tensor([NAN, INF, -INF, 3e38] * 4 + [0.0, 0.0]).reshape(1, 18, 1, 1)  # torchvision's kernel fails
    given = (torch.ones(1, 1, 3, 3), torch.ones(1, 1, 3, 3), offset, offset, torch.zeros(1), *(1, 1, 0, 0, 1, 1, 1, 1))
    assert detection.deform_conv2d(*given, False).tolist() == [[[[1.0]]]]


def test_multiscale_roi_align() -> None:
    generator = torch.Generator().manual_seed(0)
    maps = [torch.randn(2, 3, size, size + 2, generator=generator) for size in (16, 8, 4)]
    rois = torch.cat([torch.randint(0, 2, (30, 1), generator=generator).float(), boxes_of(30, 1, 20.0)], 1)
    levels = torch.randint(0, 3, (30,), generator=generator)
    given = (maps, rois, levels, [0.5, 0.25, 0.125], 3, 4, 2)
    expected = torch.ops.modelbuild_kernels.multiscale_roi_align(*given)
    torch.testing.assert_close(detection.multiscale_roi_align(*given), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "groups", "offsets", "masked"),
    [((1, 1), (1, 1), (1, 1), 1, 1, True), ((2, 1), (0, 2), (1, 2), 2, 2, False), ((1, 2), (2, 1), (2, 1), 1, 4, True)],
)
def test_deform_conv2d(
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
    groups: int,
    offsets: int,
    masked: bool,
) -> None:
    generator = torch.Generator().manual_seed(0)
    image, weight = (
        torch.randn(2, 4, 9, 11, generator=generator),
        torch.randn(6, 4 // groups, 3, 2, generator=generator),
    )
    rows, columns = (
        (size + 2 * pad - apart * (taps - 1) - 1) // step + 1
        for size, taps, step, pad, apart in zip((9, 11), (3, 2), stride, padding, dilation, strict=True)
    )
    offset = torch.randn(2, 2 * offsets * 6, rows, columns, generator=generator) * 4
    mask = torch.rand(2, offsets * 6, rows, columns, generator=generator) if masked else torch.zeros(2, 1)
    bias = torch.randn(6, generator=generator)
    given = (image, weight, offset, mask, bias, *stride, *padding, *dilation, groups, offsets, masked)
    found = detection.deform_conv2d(*given)
    torch.testing.assert_close(found, torch.ops.torchvision.deform_conv2d(*given), rtol=0, atol=1e-4)


@pytest.mark.parametrize("size", [0, 1, 1000, 4097, 9000])
@pytest.mark.parametrize("dtype", [torch.bool, torch.float32, torch.int64])
def test_nonzero(size: int, dtype: torch.dtype) -> None:
    x = torch.randint(-1, 2, (size,), generator=torch.Generator().manual_seed(0)).to(dtype)
    assert torch.equal(data_dependent.nonzero(x), torch.nonzero(x))
    assert torch.equal(data_dependent.nonzero(torch.zeros_like(x)), torch.nonzero(torch.zeros_like(x)))
