"""torchvision's operators, for steps that read a program and do not import torchvision.

A program contains only an operator's name; the export step ran the model's code with torchvision. This module defines
the schemas, the shapes of results, and the out variants, which kernels implement.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType
from typing import Any

import torch

from modelbuild_rules.operators.steps import torchvision_eager
from modelbuild_rules.operators.steps.sizes import up_to

NAMESPACE = "torchvision"

_SCHEMAS = {
    "nms": "(Tensor dets, Tensor scores, float iou_threshold",
    "roi_align": (
        "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width,"
        " int sampling_ratio, bool aligned"
    ),
    "deform_conv2d": (
        "(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w,"
        " SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups,"
        " bool use_mask"
    ),
}

NAMES = frozenset(f"{NAMESPACE}.{name}.default" for name in _SCHEMAS)
"""The operators that have kernels."""


@cache
def register() -> None:
    """Register the operators that are not registered yet, and all out variants. Afterwards, an import of torchvision
    raises ImportError unless it came before: torchvision would register its operators again and abort the process."""
    library = torch.library.Library(NAMESPACE, "FRAGMENT")
    _KEPT.append(library)
    if "torchvision" not in sys.modules:
        sys.meta_path.insert(0, _TooLate())
    for name, arguments in _SCHEMAS.items():
        given = _registered(name, "default")
        if not given:
            library.define(f"{name}{arguments}) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))
            library.impl(name, getattr(torchvision_eager, name), "CPU")
        if not given or name == "nms":  # torchvision's shape is unbounded, and at least 2
            torch.library.register_fake(f"{NAMESPACE}::{name}", _SHAPES[name], lib=library)
        if not _registered(name, "out"):
            library.define(f"{name}.out{arguments}, *, Tensor(a!) out) -> Tensor(a!)")


_KEPT: list[Any] = []  # registrations end with their library


class _TooLate(MetaPathFinder, Loader):
    """Finds torchvision, for code that asks whether it is installed, and refuses its import."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "torchvision":
            return None
        others = [each for each in sys.meta_path if each is not self]  # a step finds only what is in its key
        found = any(each.find_spec(fullname, path, target) for each in others)
        return spec_from_loader(fullname, self) if found else None

    def exec_module(self, module: ModuleType) -> None:
        raise ImportError(
            "torchvision cannot be imported after a program with its operators was read; expected the import at the"
            " top of the file, not in a function"
        )


def _registered(name: str, overload: str) -> bool:
    operators = getattr(torch.ops, NAMESPACE)
    return hasattr(operators, name) and overload in getattr(operators, name).overloads()


def _nms(dets: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    return dets.new_empty(up_to(dets.shape[0]), dtype=torch.int64)


def _roi_align(
    input: torch.Tensor,
    rois: torch.Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> torch.Tensor:
    return input.new_empty(rois.shape[0], input.shape[1], pooled_height, pooled_width)


def _deform_conv2d(
    input: torch.Tensor,
    weight: torch.Tensor,
    offset: torch.Tensor,
    mask: torch.Tensor,
    bias: torch.Tensor,
    *numbers: int,
) -> torch.Tensor:
    return input.new_empty(input.shape[0], weight.shape[0], *offset.shape[2:])


_SHAPES = {"nms": _nms, "roi_align": _roi_align, "deform_conv2d": _deform_conv2d}
