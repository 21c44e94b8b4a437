"""Samples of feature maps at regions and offsets, for backends that decompose torchvision's operators."""

from __future__ import annotations

from modelbuild_rules.operators.steps.torchvision_eager import Planes as Planes
from modelbuild_rules.operators.steps.torchvision_eager import deform_conv2d as deform_conv2d
from modelbuild_rules.operators.steps.torchvision_eager import pooled as pooled
from modelbuild_rules.operators.steps.torchvision_eager import roi_align as roi_align
