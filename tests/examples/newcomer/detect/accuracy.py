"""How well two detectors agree on a picture."""


def agreement(outputs, expected):
    """Return the share of the ten best centers that the expected detector has within 8 pixels."""

    def centers(found):
        boxes, scores = found["boxes"], found["scores"]
        best = scores.argsort()[::-1][:10]
        return (boxes[best, :2] + boxes[best, 2:]) / 2

    near = abs(centers(outputs)[:, None] - centers(expected)[None]).max(-1).min(1) <= 8
    return float(near.mean())
