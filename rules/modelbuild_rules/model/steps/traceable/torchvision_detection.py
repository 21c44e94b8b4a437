"""Traceable forms of functions of torchvision's detection models: the same arguments and results.

Each function here becomes the code of a function in torchvision while a model is exported (replacements.py), so it uses
no global names. This module does not import torchvision, because it would then be in the key of each model's export.

Detectors without proposals, in torchvision, drop boxes with low scores before they choose the best of each level or
class. Here they choose first, among scores of which the low ones are -inf, so that one size depends on values.

Private names used, checked on torchvision 0.29.2: torchvision.ops.poolers._convert_to_roi_format, and
torchvision.models.detection.roi_heads (expand_boxes, expand_masks). The functions that replacements.py lists, some of
them private, are patched.
"""

from __future__ import annotations

from typing import Any


def batched_nms(boxes: Any, scores: Any, idxs: Any, iou_threshold: float) -> Any:
    """Replaces torchvision.ops.boxes.batched_nms, which loops over the classes that occur."""
    import torch

    return torch.ops.modelbuild_kernels.batched_nms(boxes, scores, idxs, iou_threshold)


def multiscale_roi_align(
    x_filtered: Any, boxes: Any, output_size: Any, sampling_ratio: int, scales: Any, mapper: Any
) -> Any:
    """Replaces torchvision.ops.poolers._multiscale_roi_align, which has a tensor of unknown size for each level."""
    import sys

    import torch

    poolers = sys.modules["torchvision.ops.poolers"]
    rois = poolers._convert_to_roi_format(boxes)
    if len(x_filtered) == 1:
        return poolers.roi_align(
            x_filtered[0], rois, output_size=output_size, spatial_scale=scales[0], sampling_ratio=sampling_ratio
        )
    return torch.ops.modelbuild_kernels.multiscale_roi_align(
        list(x_filtered), rois, mapper(boxes), [float(each) for each in scales], *output_size, sampling_ratio
    )


def decode(self: Any, rel_codes: Any, boxes: Any) -> Any:
    """Replaces BoxCoder.decode of torchvision.models.detection._utils, which branches on the existence of boxes.

    Without boxes the original returns 0 x 4c; this returns 0 x c x 4, from which callers take the same empty boxes.
    """
    import torch

    made = self.decode_single(rel_codes, torch.cat(boxes, dim=0))
    return made.reshape(made.shape[0], made.shape[1] // 4, 4)


def ssd_detections(self: Any, head_outputs: Any, image_anchors: Any, image_shapes: Any) -> Any:
    """Replaces SSD.postprocess_detections of torchvision.models.detection.ssd, which has a loop over the classes."""
    import sys

    import torch

    from modelbuild_rules.model.steps.traceable import torchvision_detection as ours

    clip = sys.modules["torchvision.ops.boxes"].clip_boxes_to_image
    of_codes, of_scores = head_outputs["bbox_regression"], head_outputs["cls_logits"].softmax(-1)
    detections = []
    for codes, scores, anchors, shape in zip(of_codes, of_scores, image_anchors, image_shapes, strict=True):
        boxes = clip(self.box_coder.decode_single(codes, anchors), shape)
        best, places = ours.candidates(self, scores[:, 1:].t())
        labels = torch.arange(1, scores.shape[1], device=scores.device)[:, None].expand_as(best)
        detections.append(ours.detections_of(self, boxes[places.flatten()], best.flatten(), labels.flatten()))
    return detections


def retinanet_detections(self: Any, head_outputs: Any, anchors: Any, image_shapes: Any) -> Any:
    """Replaces RetinaNet.postprocess_detections of torchvision.models.detection.retinanet."""
    from modelbuild_rules.model.steps.traceable import torchvision_detection as ours

    scores = [logits.sigmoid() for logits in head_outputs["cls_logits"]]
    codes, decode = head_outputs["bbox_regression"], self.box_coder.decode_single
    return ours.detections_of_levels(self, decode, scores, codes, anchors, image_shapes)


def fcos_detections(self: Any, head_outputs: Any, anchors: Any, image_shapes: Any) -> Any:
    """Replaces FCOS.postprocess_detections of torchvision.models.detection.fcos."""
    from modelbuild_rules.model.steps.traceable import torchvision_detection as ours

    of_levels = zip(head_outputs["cls_logits"], head_outputs["bbox_ctrness"], strict=True)
    scores = [(logits.sigmoid() * centers.sigmoid()).sqrt() for logits, centers in of_levels]
    codes, decode = head_outputs["bbox_regression"], self.box_coder.decode
    return ours.detections_of_levels(self, decode, scores, codes, anchors, image_shapes)


def detections_of_levels(self: Any, decode: Any, scores: Any, codes: Any, anchors: Any, image_shapes: Any) -> Any:
    """Return the detections of each image. For each level, `scores` are images x boxes x classes, and `codes` images x
    boxes x 4, which `decode` makes boxes of; `anchors` are boxes x 4 for each image and level."""
    import sys

    import torch

    clip = sys.modules["torchvision.ops.boxes"].clip_boxes_to_image
    detections = []
    for image, shape in enumerate(image_shapes):
        found = []
        for level, anchors_of_level in enumerate(anchors[image]):
            classes = scores[level].shape[-1]
            best, places = candidates(self, scores[level][image].flatten())
            rows = torch.div(places, classes, rounding_mode="floor")
            boxes = clip(decode(codes[level][image][rows], anchors_of_level[rows]), shape)
            found.append((boxes, best, places % classes))
        detections.append(detections_of(self, *(torch.cat(each) for each in zip(*found, strict=True))))
    return detections


def candidates(self: Any, scores: Any) -> Any:
    """Return the greatest of the last dimension's scores, at most `topk_candidates`, and their places. A score that is
    not above the threshold is -inf."""
    import torch

    high = torch.where(scores > self.score_thresh, scores, -torch.inf)
    return high.topk(min(self.topk_candidates, scores.shape[-1]))


def detections_of(self: Any, boxes: Any, scores: Any, labels: Any) -> Any:
    """Return the detections among some candidates, n x 4, n and n."""
    import sys

    there = (scores > self.score_thresh).nonzero()[:, 0]
    boxes, scores, labels = boxes[there], scores[there], labels[there]
    keep = sys.modules["torchvision.ops.boxes"].batched_nms(boxes, scores, labels, self.nms_thresh)
    keep = keep[: self.detections_per_img]
    return {"boxes": boxes[keep], "scores": scores[keep], "labels": labels[keep]}


def paste_masks_in_image(masks: Any, boxes: Any, img_shape: Any, padding: int = 1) -> Any:
    """Replaces torchvision.models.detection.roi_heads.paste_masks_in_image, which resizes masks one by one.

    A resized mask is rows @ mask @ columns, where each row and column has the weights of bilinear interpolation.
    """
    import sys

    import torch

    roi_heads = sys.modules["torchvision.models.detection.roi_heads"]
    masks, scale = roi_heads.expand_masks(masks, padding=padding)
    boxes = roi_heads.expand_boxes(boxes, scale).to(dtype=torch.int64)

    def weights(first: Any, last: Any, size: int) -> Any:
        """Return the weights of a mask's pixels in each of `size` pixels: boxes x size x pixels."""
        pixels = masks.shape[-1]
        length = (last - first + 1).clamp(min=1)[:, None]
        offset = torch.arange(size) - first[:, None]
        at = ((offset + 0.5) * (pixels / length) - 0.5).clamp(0, pixels - 1)
        inside = (offset >= 0) & (offset < length)
        near = (1 - (at[:, :, None] - torch.arange(pixels)).abs()).clamp(min=0)
        return near * inside[:, :, None]

    left, top, right, bottom = boxes.unbind(1)
    rows, columns = weights(top, bottom, img_shape[0]), weights(left, right, img_shape[1])
    return (rows @ masks[:, 0] @ columns.transpose(1, 2))[:, None]


def heatmaps_to_keypoints(maps: Any, rois: Any) -> Any:
    """Replaces torchvision.models.detection.roi_heads.heatmaps_to_keypoints, which resizes the maps of each box to the
    box's own size."""
    import torch

    corners = rois[:, :2]
    sizes = (rois[:, 2:] - corners).clamp(min=1)
    pixels = sizes.ceil()
    widths, heights = pixels.to(torch.int64).unbind(1)
    peaks = torch.ops.modelbuild_kernels.bicubic_peaks(maps, heights, widths).to(torch.float32)
    steps = (sizes / pixels).to(torch.float32)
    places = (peaks[:, :, :2] + 0.5) * steps[:, None] + corners.to(torch.float32)[:, None]
    return torch.cat([places, torch.ones_like(places[:, :, :1])], 2), peaks[:, :, 2]
