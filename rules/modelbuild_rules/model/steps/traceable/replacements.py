"""Functions of libraries that torch.export cannot trace, replaced while a model is exported.

Each replacement is for the exact source text of a function, so a library's version with another text is never changed.
Eager mode, to which programs are compared, runs the library's own functions.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

from modelbuild_rules.model.steps.traceable import torchvision_detection as torchvision
from modelbuild_rules.operators.steps import detection_operators


@dataclass(frozen=True)
class Replacement:
    """A library's function, and a replacement with the same arguments and results that torch.export can trace.

    version      the library's version that it was checked on
    module       where the function is
    name         the function, as `function` or `Class.function`
    by           the replacement; its code uses no global names, because it runs among the library's
    source       SHA-256 of the source texts of the function and of `helpers`
    helpers      functions of the module that only the original calls
    """

    version: str
    module: str
    name: str
    by: Callable[..., Any]
    source: str
    helpers: tuple[str, ...] = ()


REPLACEMENTS: Sequence[Replacement] = (
    Replacement(
        "0.29.2",
        "torchvision.ops.boxes",
        "batched_nms",
        torchvision.batched_nms,
        "bd499fdc97f78d89b440cad3f515a80ea1552c67f85623f885dd3714e315c23f",
        helpers=("_batched_nms_coordinate_trick", "_batched_nms_vanilla"),
    ),
    Replacement(
        "0.29.2",
        "torchvision.ops.poolers",
        "_multiscale_roi_align",
        torchvision.multiscale_roi_align,
        "55f7387a15f07968cdf8fc02d43dcc05e9fb06f5310bb78345de32543ed3568d",
    ),
    Replacement(
        "0.29.2",
        "torchvision.models.detection._utils",
        "BoxCoder.decode",
        torchvision.decode,
        "4e71fcc8b29a7b764486de798160bc3197629e556059334a777068d11aa5c09e",
    ),
    Replacement(
        "0.29.2",
        "torchvision.models.detection.ssd",
        "SSD.postprocess_detections",
        torchvision.ssd_detections,
        "c76d6465435cf45c739f4a65bd9dc42b7cf0acbe672fdb1ace9ad49da25ea966",
    ),
    Replacement(
        "0.29.2",
        "torchvision.models.detection.retinanet",
        "RetinaNet.postprocess_detections",
        torchvision.retinanet_detections,
        "3a9ab809a3822c8c86175e7268059fd0e4048b3d034fab1c18fe4e1bc0ab299d",
    ),
    Replacement(
        "0.29.2",
        "torchvision.models.detection.fcos",
        "FCOS.postprocess_detections",
        torchvision.fcos_detections,
        "0d4ef29ea932c51a40b135adf3e921519f5b0fa44c8d0d860cca97e0d1069143",
    ),
    Replacement(
        "0.29.2",
        "torchvision.models.detection.roi_heads",
        "paste_masks_in_image",
        torchvision.paste_masks_in_image,
        "f17371294be212ee82d81b88b6a601fbe807118ea2bdb1630d3a22532842ce5d",
        helpers=("paste_mask_in_image",),
    ),
    Replacement(
        "0.29.2",
        "torchvision.models.detection.roi_heads",
        "heatmaps_to_keypoints",
        torchvision.heatmaps_to_keypoints,
        "7ac232ec87118c04f4620829f382beb9c1399efc28e20f9e259c97615474fdad",
    ),
)


def function_of(module: str, name: str) -> FunctionType | None:
    """Return a function of an imported module; None if no module imported it, or it has no such function."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, FunctionType) else None


def digest(replacement: Replacement) -> str:
    """Return the SHA-256 of the installed source texts of a function and its helpers; '' if a function is missing."""
    functions = [function_of(replacement.module, name) for name in (replacement.name, *replacement.helpers)]
    texts = [inspect.getsource(function) for function in functions if function is not None]
    return hashlib.sha256("".join(texts).encode()).hexdigest() if len(texts) == len(functions) else ""


def _code(function: Any) -> CodeType:
    code: CodeType = function.__code__
    return code


@contextmanager
def replaced() -> Iterator[None]:
    """Replace the code of imported functions while the context lasts.

    The code is replaced, not the names that lead to it: `from torchvision.ops import batched_nms` copies a name.
    """
    codes: list[tuple[FunctionType, CodeType]] = []
    if "torchvision" in sys.modules:
        detection_operators.register()
    try:
        for function, each in _imported():
            if digest(each) == each.source:
                codes.append((function, function.__code__))
                function.__code__ = _code(each.by)
        yield
    finally:
        for function, code in codes:
            function.__code__ = code


def changed() -> list[str]:
    """Return a line for each imported function that is not replaced, because it has another version's text."""
    return [
        f"{each.module}.{each.name} differs from that of version {each.version}, which modelbuild replaces"
        for function, each in _imported()
        if digest(each) != each.source
    ]


def _imported() -> Iterator[tuple[FunctionType, Replacement]]:
    """Yield the functions that the model's code has imported, with their replacements."""
    for each in REPLACEMENTS:
        found = function_of(each.module, each.name)
        if found is not None:
            yield found, each
