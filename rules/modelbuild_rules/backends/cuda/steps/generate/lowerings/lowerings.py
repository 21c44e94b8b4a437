"""Replace Inductor's lowerings of convolutions and matrix products."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from modelbuild_rules.backends.cuda.steps.generate.lowerings.depthwise import with_depthwise
from modelbuild_rules.backends.cuda.steps.generate.lowerings.products import lowerings
from modelbuild_rules.backends.cuda.steps.kernels.device import Gpu


def lowered(original: Mapping[Any, Callable[..., Any]], gpu: Gpu, tf32: bool) -> dict[Any, Callable[..., Any]]:
    """Return the lowerings that replace some of Inductor's (`original`), by operator."""
    made = lowerings(original, gpu, tf32)
    convolution = torch.ops.aten.convolution.default
    return {**made, convolution: with_depthwise(made[convolution])}
