"""A face detector in one exportable module: the MTCNN cascade (arXiv:1604.02878), from the photo to the boxes."""

from __future__ import annotations

import torch
from models.boxes import anchors, non_maximum_suppression, refined, squared
from models.nets import OutputNet, ProposalNet, RefinementNet
from models.resample import area_weights, crops, shrunk
from torch import Tensor, nn


def pyramid_sizes(image_size: int, min_face: int, factor: float) -> list[int]:
    """Return the sides (pixels) of the ever smaller images in which P-Net finds faces of at least `min_face` pixels."""
    sizes = []
    side = image_size * ProposalNet.CELL / min_face
    while side >= ProposalNet.CELL:
        sizes.append(round(side))
        side *= factor
    return sizes


class Detector(nn.Module):
    """Find faces, and five landmarks in each, in a square photo.

    P-Net finds candidates on every level of an image pyramid, R-Net scores the best of them, and O-Net the best of
    R-Net's. The photo decides the number of cells that look like a face, and the number of faces. The stages in between
    have a fixed number of rows; a row with score 0 is no candidate.

    image_size          side of the photo, pixels
    min_face            side of the smallest face, pixels
    factor              size of each level of the pyramid relative to the level before
    score_thresholds    minimum probability that passes P-Net, R-Net, O-Net
    overlap_thresholds  maximum intersection over union of two boxes that pass P-Net, R-Net, O-Net
    candidates          maximum number of boxes from P-Net, for R-Net, for O-Net
    """

    def __init__(
        self,
        image_size: int = 512,
        min_face: int = 40,
        factor: float = 0.6,
        score_thresholds: tuple[float, float, float] = (0.6, 0.7, 0.7),
        overlap_thresholds: tuple[float, float, float] = (0.7, 0.7, 0.4),
        candidates: tuple[int, int, int] = (256, 128, 32),
    ) -> None:
        super().__init__()
        self.pnet = ProposalNet()
        self.rnet = RefinementNet()
        self.onet = OutputNet()
        self.image_size = image_size
        self.score_thresholds = score_thresholds
        self.overlap_thresholds = overlap_thresholds
        self.candidates = candidates
        self.levels = pyramid_sizes(image_size, min_face, factor)
        grids = []
        for side in self.levels:
            self.register_buffer(f"shrink_{side}", area_weights(image_size, side), persistent=False)
            grids.append(anchors(self.pnet.cells(side), ProposalNet.STRIDE, ProposalNet.CELL, image_size / side))
        # One row for each cell of each level, and a last one for no cell.
        self.register_buffer("anchors", torch.cat([*grids, torch.zeros(1, 4)]), persistent=False)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(1, 3, S, S) RGB, 0..255 -> boxes (n, 4; x1 y1 x2 y2), scores (n,), landmarks (n, 5, 2; x y), best first.

        Boxes and landmarks are in pixels. Landmarks: left eye, right eye, nose, left and right corner of the mouth, as
        the viewer sees them.
        """
        boxes, scores = self._propose(image)
        boxes, scores = self._refine(image, boxes, scores)
        return self._conclude(image, boxes, scores)

    def _propose(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Run P-Net on each level; return the best candidates as squares."""
        table, found, base = [], [], 0
        for side in self.levels:
            rows, cells = self._scan(image, side)
            found.append(cells + base)
            table.append(rows)
            base += rows.shape[0]
        nothing = image.new_zeros(1, 5)
        padding = torch.full((self.candidates[0],), base, device=image.device)
        cells = torch.cat([*found, padding])
        answers = torch.cat([*table, nothing]).index_select(0, cells)
        scores, best = torch.topk(answers[:, 0], self.candidates[0])
        boxes = refined(self.get_buffer("anchors").index_select(0, cells), answers[:, 1:]).index_select(0, best)
        return self._pass_on(boxes, scores, 0)

    def _scan(self, image: Tensor, side: int) -> tuple[Tensor, Tensor]:
        """Run P-Net on one level; return each cell's probability and offsets (h * w, 5), and the cells with faces."""
        probability, offsets = self.pnet(shrunk(image, self.get_buffer(f"shrink_{side}")))
        rows = torch.cat([probability, offsets], dim=1).permute(0, 2, 3, 1).reshape(-1, 5)
        height, width = probability.shape[2:]
        hits = torch.nonzero(probability.reshape(height, width) > self.score_thresholds[0])  # (n, 2): row, column
        return rows, hits[:, 0] * width + hits[:, 1]

    def _refine(self, image: Tensor, boxes: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Run R-Net on each candidate; return fewer and better squares."""
        probability, offsets = self.rnet(crops(image, boxes, RefinementNet.SIZE))
        scores, best = torch.topk(self._judged(scores, probability, 1), self.candidates[1])
        return self._pass_on(refined(boxes, offsets).index_select(0, best), scores, 1)

    def _conclude(self, image: Tensor, boxes: Tensor, scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Run O-Net on each candidate; return the faces."""
        probability, offsets, points = self.onet(crops(image, boxes, OutputNet.SIZE))
        scores, best = torch.topk(self._judged(scores, probability, 2), self.candidates[2])
        landmarks = boxes[:, None, :2] + points * (boxes[:, 2:] - boxes[:, :2])[:, None]
        boxes = refined(boxes, offsets).index_select(0, best)
        faces = torch.nonzero(non_maximum_suppression(boxes, scores, self.overlap_thresholds[2])).squeeze(1)
        boxes = boxes.clamp(0, self.image_size).index_select(0, faces)
        return boxes, scores.index_select(0, faces), landmarks.index_select(0, best.index_select(0, faces))

    def _judged(self, scores: Tensor, probability: Tensor, stage: int) -> Tensor:
        """Return probabilities (N, 1) as scores (N,): 0 for a probability that is too low, and for no candidate."""
        probability = probability.flatten()
        return probability * ((scores > 0) & (probability > self.score_thresholds[stage]))

    def _pass_on(self, boxes: Tensor, scores: Tensor, stage: int) -> tuple[Tensor, Tensor]:
        """Return the best boxes after suppression, as squares, for the next stage. Boxes come best first."""
        keep = non_maximum_suppression(boxes, scores, self.overlap_thresholds[stage])
        scores, best = torch.topk(scores * keep, self.candidates[stage + 1])
        return squared(boxes.index_select(0, best)), scores
