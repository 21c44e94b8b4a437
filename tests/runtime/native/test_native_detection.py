"""Mask R-CNN and Keypoint R-CNN of torchvision, small and with random weights, are one program each, which finds the
boxes of eager mode."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision.models.detection as detection
from torch import Tensor, nn
from torchvision.ops import MultiScaleRoIAlign

from modelbuild_rules.model.steps.traceable.replacements import replaced
from tests.portable_program import build_program
from tests.zoo.spread import spread

SIZE = 48


class Backbone(nn.Module):
    """Two feature maps of eight channels."""

    out_channels = 8

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Conv2d(3, 8, 3, 4, 1), nn.Conv2d(8, 8, 3, 2, 1)])

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        first = self.layers[0](image).relu()
        return {"0": first, "1": self.layers[1](first).relu()}


def pool() -> nn.Module:
    return MultiScaleRoIAlign(["0", "1"], 4, 2, canonical_scale=24, canonical_level=3)


def mask_rcnn(**common: Any) -> nn.Module:
    return detection.MaskRCNN(
        **common,
        box_predictor=detection.faster_rcnn.FastRCNNPredictor(16, 5),
        mask_roi_pool=pool(),
        mask_head=detection.mask_rcnn.MaskRCNNHeads(8, (8,), 1),
        mask_predictor=detection.mask_rcnn.MaskRCNNPredictor(8, 8, 5),
    )


def keypoint_rcnn(**common: Any) -> nn.Module:
    return detection.KeypointRCNN(
        **common,
        box_predictor=detection.faster_rcnn.FastRCNNPredictor(16, 5),
        keypoint_roi_pool=pool(),
        keypoint_head=detection.keypoint_rcnn.KeypointRCNNHeads(8, (8,)),
        keypoint_predictor=detection.keypoint_rcnn.KeypointRCNNPredictor(8, 3),
    )


def detector(kind: Callable[..., nn.Module]) -> nn.Module:
    """Return a detector with random weights, which finds nothing in an even gray."""
    torch.manual_seed(3)
    made = kind(
        backbone=Backbone(),
        min_size=SIZE,
        max_size=SIZE,
        rpn_anchor_generator=detection.anchor_utils.AnchorGenerator(((12,), (24,)), ((0.5, 1.0),) * 2),
        rpn_post_nms_top_n_test=20,
        box_roi_pool=MultiScaleRoIAlign(["0", "1"], 3, 2, canonical_scale=24, canonical_level=3),
        box_head=detection.faster_rcnn.TwoMLPHead(8 * 9, 16),
        box_score_thresh=0.4,
    ).eval()
    with torch.no_grad():
        spread(made, [torch.rand(3, SIZE, SIZE)])
        made.rpn.head.bbox_pred.weight.mul_(0.25)
    return made.requires_grad_(False)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", [mask_rcnn, keypoint_rcnn])
def test_a_detector_of_torchvision_finds_the_boxes_of_eager_mode(
    kind: Callable[..., nn.Module], modelbuild_run: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    module = detector(kind)
    drawn = torch.Generator().manual_seed(5)
    pictures = [torch.rand(3, SIZE, SIZE, generator=drawn) for _ in range(2)] + [torch.full((3, SIZE, SIZE), 0.5)]
    expected: list[Any] = [module([picture])[0] for picture in pictures]
    with torch.no_grad(), replaced():
        exported = torch.export.export(module, ([pictures[0]],), strict=False)
    program = build_program(exported, tmp_path).pte
    for number, (picture, wanted) in enumerate(zip(pictures, expected, strict=True)):
        np.save(tmp_path / "image.npy", picture.numpy())
        done = modelbuild_run(
            program, f"--input=input0={tmp_path}/image.npy", f"--output-dir={tmp_path}/{number}", "--json"
        )
        assert done.returncode == 0, done.stderr
        found = [np.load(output["path"]) for output in json.loads(done.stdout)["outputs"]]
        for have, want in zip(found, wanted.values(), strict=True):
            assert have.shape == tuple(want.shape)
            np.testing.assert_allclose(have, want.numpy(), rtol=1e-3, atol=1e-3)
    counts = [len(each["boxes"]) for each in expected]
    assert counts[0] > 3
    assert counts[1] > 3
    assert counts[2] == 0
