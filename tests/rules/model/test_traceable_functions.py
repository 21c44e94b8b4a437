"""Functions of libraries that are replaced while a model is exported: equal results, exact texts, undone afterwards."""

from __future__ import annotations

import builtins
import dis
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from types import CodeType, SimpleNamespace
from typing import Any

import pytest
import torch
import torchvision.models.detection  # imports each module with a replaced function
from torch import Tensor

from modelbuild_rules.model.steps.traceable import replacements
from modelbuild_rules.model.steps.traceable.replacements import REPLACEMENTS, Replacement, digest, function_of, replaced
from modelbuild_rules.operators.steps import detection_operators

NAMES = [each.name for each in REPLACEMENTS]


@pytest.fixture(autouse=True)
def operators() -> None:
    detection_operators.register()


def boxes(count: int, seed: int, size: float = 100) -> Tensor:
    drawn = torch.Generator().manual_seed(seed)
    corners = torch.rand(count, 2, generator=drawn) * size
    return torch.cat([corners, corners + torch.rand(count, 2, generator=drawn) * size / 2], 1)


def global_names(code: CodeType) -> Iterator[str]:
    """Yield the global names that a code and the codes in it use."""
    yield from (each.argval for each in dis.get_instructions(code) if each.opname == "LOAD_GLOBAL")
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from global_names(inner)


@pytest.mark.parametrize("each", REPLACEMENTS, ids=NAMES)
class TestEach:
    """Fails when the library changes: compare the new function with the replacement, then change both here."""

    def test_the_function_has_the_text_that_the_replacement_is_for(self, each: Replacement) -> None:
        assert (version(each.module.partition(".")[0]), digest(each)) == (each.version, each.source)

    def test_it_has_the_arguments_of_the_function(self, each: Replacement) -> None:
        function = function_of(each.module, each.name)
        assert function is not None
        wanted = inspect.signature(function).parameters.values()
        found = inspect.signature(each.by).parameters.values()
        assert [(p.name, p.default, p.kind) for p in found] == [(p.name, p.default, p.kind) for p in wanted]

    def test_its_code_uses_no_names_of_its_module(self, each: Replacement) -> None:
        assert set(global_names(each.by.__code__)) <= set(vars(builtins))

    def test_it_ends_with_the_export(self, each: Replacement) -> None:
        function = function_of(each.module, each.name)
        assert function is not None
        code = function.__code__
        with replaced():
            assert function.__code__ is each.by.__code__
        assert function.__code__ is code
        with suppress(KeyboardInterrupt), replaced():
            raise KeyboardInterrupt
        assert function.__code__ is code


def both(function: Callable[..., Any], *args: Any) -> Iterator[Any]:
    yield function(*args)
    with replaced():
        yield function(*args)


@pytest.mark.parametrize("count", [0, 1, 40, 1000, 1001, 3000])
def test_batched_nms_keeps_the_same_boxes(count: int) -> None:
    from torchvision.ops import batched_nms

    drawn = torch.Generator().manual_seed(count)
    classes = torch.randint(0, 7, (count,), generator=drawn)
    scores = torch.randperm(count, generator=drawn).float()
    if count <= 1000:
        scores = scores.div(5).floor()  # ties, whose order torchvision does not define for more boxes
    wanted, found = both(batched_nms, boxes(count, 1), scores, classes, 0.4)
    assert torch.equal(found, wanted)


class Suppressed(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[torchvision.ops.nms(x, x.sum(1), 0.5)]


def test_nms_may_keep_no_or_one_box() -> None:
    sizes = ({0: torch.export.Dim("count", min=0, max=9)},)
    with replaced():
        program = torch.export.export(Suppressed(), (boxes(5, 1),), dynamic_shapes=sizes)
    for count in (0, 1, 9):
        x = boxes(count, 2)
        assert torch.equal(program.module()(x), Suppressed()(x))


@pytest.mark.parametrize("count", [0, 1, 50])
@pytest.mark.parametrize("levels", [1, 3])
def test_regions_are_pooled_from_the_same_levels(levels: int, count: int) -> None:
    names = [str(level) for level in range(levels)]
    maps = {name: torch.rand(1, 4, 64 >> level, 64 >> level) for level, name in enumerate(names)}
    found = boxes(count, 2, 256)
    pool = torchvision.ops.MultiScaleRoIAlign(names, 3, 2)
    wanted, found = both(pool, maps, [found], [(256, 256)])
    assert torch.equal(found, wanted)


def test_boxes_are_decoded_to_the_same() -> None:
    coder = torchvision.models.detection._utils.BoxCoder((10.0, 10.0, 5.0, 5.0))
    codes = torch.rand(12, 20, generator=torch.Generator().manual_seed(3))
    wanted, found = both(coder.decode, codes, [boxes(5, 4), boxes(7, 5)])
    assert torch.equal(found, wanted)


def detector(coder: Any, threshold: float, count: int) -> Any:
    """Return what postprocess_detections reads of a detector: at most `count` candidates of each level or class."""
    return SimpleNamespace(
        box_coder=coder, score_thresh=threshold, topk_candidates=count, nms_thresh=0.5, detections_per_img=60
    )


def logits(seed: int, *shape: int) -> Tensor:
    made = torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * 2
    made[..., 3, :] = torch.nan  # a score that is not a number is above no threshold
    return made


# Thresholds with no, some and all scores above them; counts below and above the number of boxes.
CANDIDATES = [(2.0, 10), (0.3, 10), (0.3, 1000), (0.0, 10), (-1.0, 1000)]


def check_detections(kind: Any, *args: Any) -> None:
    wanted, found = both(kind.postprocess_detections, *args)
    assert len(found) == len(wanted)
    for mine, theirs in zip(found, wanted, strict=True):
        assert list(mine) == list(theirs)
        for name in theirs:
            assert mine[name].dtype == theirs[name].dtype
            torch.testing.assert_close(mine[name], theirs[name], rtol=0, atol=1e-6)


@pytest.mark.parametrize(("threshold", "count"), CANDIDATES)
def test_detections_of_ssd_are_the_same(threshold: float, count: int) -> None:
    coder = torchvision.models.detection._utils.BoxCoder((10.0, 10.0, 5.0, 5.0))
    heads = {"bbox_regression": torch.rand(2, 80, 4), "cls_logits": logits(11, 2, 80, 6)}
    anchors, shapes = [boxes(80, 12), boxes(80, 13)], [(90, 110), (100, 100)]
    check_detections(torchvision.models.detection.ssd.SSD, detector(coder, threshold, count), heads, anchors, shapes)


@pytest.mark.parametrize(("threshold", "count"), CANDIDATES)
@pytest.mark.parametrize("name", ["retinanet.RetinaNet", "fcos.FCOS"])
def test_detections_of_levels_are_the_same(name: str, threshold: float, count: int) -> None:
    module, _, kind = name.partition(".")
    sizes = (60, 20, 5)
    heads = {
        "cls_logits": [logits(20 + size, 2, size, 4) for size in sizes],
        "bbox_regression": [torch.rand(2, size, 4) for size in sizes],
        "bbox_ctrness": [logits(30 + size, 2, size, 1) for size in sizes],
    }
    anchors = [[boxes(size, 40 + size) for size in sizes] for _ in range(2)]
    utils = torchvision.models.detection._utils
    coder = utils.BoxLinearCoder(True) if kind == "FCOS" else utils.BoxCoder((1.0, 1.0, 1.0, 1.0))
    detectors = getattr(torchvision.models.detection, module)
    of = detector(coder, threshold, count)
    check_detections(getattr(detectors, kind), of, heads, anchors, [(90, 110), (100, 100)])


@pytest.mark.parametrize("count", [0, 30])
def test_masks_are_pasted_at_the_same_place(count: int) -> None:
    from torchvision.models.detection.roi_heads import paste_masks_in_image

    masks = torch.rand(count, 1, 28, 28, generator=torch.Generator().manual_seed(6))
    found = (boxes(count, 7) - 20).clamp(0, 89)  # padding moves some edges out of the picture
    found[::5, 2:] = found[::5, :2]  # some are empty
    wanted, found = both(paste_masks_in_image, masks, found, (90, 110))
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=0)


@pytest.mark.parametrize("count", [0, 1, 30])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_keypoints_are_found_at_the_same_places(kind: torch.dtype, count: int) -> None:
    from torchvision.models.detection.roi_heads import heatmaps_to_keypoints

    maps = torch.rand(count, 5, 14, 12, generator=torch.Generator().manual_seed(8)).to(kind)
    maps[1::4] = 0.5  # the first of equal values is the peak
    maps[2::4, 3, 5, 6] = torch.nan
    found = boxes(count, 9).to(kind)
    found[::5, 2:] = found[::5, :2]  # some are empty
    found[3::7, 2:] = found[3::7, :2] + 0.3
    found[4::7, 2:] = found[4::7, :2] + 12  # the size of the maps
    wanted, found = both(heatmaps_to_keypoints, maps, found)
    torch.testing.assert_close(found, wanted, atol=0, rtol=0, equal_nan=True)


def test_keypoints_of_a_big_box_are_found_at_the_same_places() -> None:
    from torchvision.models.detection.roi_heads import heatmaps_to_keypoints

    maps = torch.rand(2, 17, 56, 56, generator=torch.Generator().manual_seed(10))
    found = torch.tensor([[0.0, 0.0, 640.0, 480.0], [3.25, 7.5, 411.7, 20.1]])
    wanted, found = both(heatmaps_to_keypoints, maps, found)
    torch.testing.assert_close(found, wanted, atol=0, rtol=0)


COPIED = """
    from torchvision.ops import batched_nms

    class Net(nn.Module):
        def forward(self, x):
            return batched_nms(x, x.sum(1), x[:, 0].long(), 0.5)
"""
BOXES = {"name": "x", "shape": [1100, 4], "dtype": "float32", "range": None}


def test_a_function_imported_by_name_is_replaced(export: Callable[..., Any]) -> None:
    program = export(COPIED, [BOXES]).program()
    assert "modelbuild_kernels.batched_nms.default" in [str(node.target) for node in program.graph.nodes]


def test_a_function_of_another_version_is_left_alone_and_named(
    monkeypatch: pytest.MonkeyPatch, refusal: Callable[..., str]
) -> None:
    others = [replace(each, source="", version="0.1") for each in REPLACEMENTS if each.name == "batched_nms"]
    monkeypatch.setattr(replacements, "REPLACEMENTS", others)
    message = refusal(COPIED, [BOXES])
    assert message.endswith(
        "torchvision.ops.boxes.batched_nms differs from that of version 0.1, which modelbuild replaces"
    )


def test_a_model_without_the_library_does_not_import_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in {each.module for each in REPLACEMENTS}:
        monkeypatch.delitem(sys.modules, module)
    with replaced():
        assert not any(each.module in sys.modules for each in REPLACEMENTS)
