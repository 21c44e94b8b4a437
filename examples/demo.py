"""Print the outputs of `modelbuild run //models:detector` as a table, and draw boxes and landmarks on the photo.

modelbuild run //models:detector --input image=//third_party:astronaut --output-dir DIR
python demo.py DIR [PHOTO]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

PHOTO = Path(__file__).parent / "modelbuild-out/cpu/third_party/astronaut/astronaut.png"
COLOUR = (255, 64, 64)


def table(boxes: np.ndarray, scores: np.ndarray) -> str:
    """Return boxes (n, 4) in pixels and scores (n,) as text, one line per face."""
    lines = [f"{'face':>4} {'score':>7} {'x1':>7} {'y1':>7} {'x2':>7} {'y2':>7}"]
    for number, (box, score) in enumerate(zip(boxes, scores, strict=True), 1):
        lines.append(f"{number:>4} {score:>7.4f} " + " ".join(f"{side:>7.1f}" for side in box))
    return "\n".join(lines)


def annotated(photo: Image.Image, boxes: np.ndarray, scores: np.ndarray, landmarks: np.ndarray) -> Image.Image:
    """Return a copy of the photo with boxes (n, 4), scores (n,) and landmarks (n, 5, 2) drawn on it."""
    picture = photo.convert("RGB")
    draw = ImageDraw.Draw(picture)
    for box, score, points in zip(boxes, scores, landmarks, strict=True):
        x1, y1, x2, y2 = box.tolist()
        draw.rectangle((x1, y1, x2, y2), outline=COLOUR, width=2)
        draw.text((x1 + 4, y1 + 3), f"{score:.3f}", fill=COLOUR)
        for x, y in points.tolist():
            draw.ellipse((x - 2, y - 2, x + 2, y + 2), fill=COLOUR)
    return picture


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("outputs", type=Path, help="folder with boxes.npy, scores.npy and landmarks.npy")
    parser.add_argument("photo", type=Path, nargs="?", default=PHOTO, help="the photo that the detector ran on")
    arguments = parser.parse_args()
    boxes, scores, landmarks = (np.load(arguments.outputs / f"{name}.npy") for name in ("boxes", "scores", "landmarks"))
    target = arguments.outputs / "annotated.png"
    with Image.open(arguments.photo) as photo:
        annotated(photo, boxes, scores, landmarks).save(target)
    print(table(boxes, scores))
    print(f"Annotated photo: {target}")


if __name__ == "__main__":
    main()
