"""The numbers of a pte_test over a dataset, and their limits."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelbuild.step import Step, StepError
from modelbuild_rules.testing.steps.parity import accuracy
from modelbuild_rules.testing.steps.parity.average_precision import Boxes, mean_average_precision
from modelbuild_rules.testing.steps.test_report import Case
from modelbuild_runtime.describe import MethodDescription, Port
from modelbuild_runtime.files.pte import Moved
from modelbuild_runtime.shapes import Dim

PORT = Port("x", "tensor", "float32", (Dim.fixed(1), Dim.fixed(3)))
NAMES = ("label", "measure", "output", "scores", "classes", "label_classes", "entry")
DEFAULTS = {"top": 0, "min": None, "max": None, "max_loss": None} | dict.fromkeys(NAMES, "")
# The model is the identity; the program confuses the first two classes of the third sample.
SAMPLES = [[9, 1, 2], [1, 9, 2], [5, 4, 0], [0, 1, 9]]
LABELS = [0, 1, 0, 1]


class Runner:
    def run(self, calls: Any) -> Any:
        return [{"y": x[:, [1, 0, 2]] if x[0, 0] == 5 else x} for x in (call.inputs["x"] for call in calls)]


class Identity:
    """The model in eager PyTorch."""

    def run(self, plan: Any) -> Any:
        calls = [planned.call({}) for planned in plan]
        return calls, [{"y": call.inputs["x"]} for call in calls]


Compute = Callable[..., tuple[Case, Mapping[str, float]]]


@pytest.fixture
def compute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compute:
    """Return a function that computes one number on the samples."""
    monkeypatch.setattr(accuracy, "description_of", lambda *_: None)
    method = MethodDescription("forward", (PORT,), (), (), (), 0, Moved())
    monkeypatch.setattr(accuracy, "method_of", lambda *_: method)
    (tmp_path / "own_metric.py").write_text(
        "def right(result, sample):\n    return float(result['y'].argmax() == sample['label'].item())\n\n"
        "def wrong(result, sample):\n    return 'text'\n"
    )
    files = []
    for number, (values, label) in enumerate(zip(SAMPLES, LABELS, strict=True)):
        files.append(tmp_path / f"{number}.npz")
        np.savez(files[-1], x=np.array([values], np.float32), label=np.array([label]))

    def run(**table: Any) -> tuple[Case, Mapping[str, float]]:
        measures: dict[str, float] = {}
        params = {"accuracy": [DEFAULTS | table], "method": "forward"}
        step = Step(params, {"samples.archives": tuple(files)}, {}, tmp_path)
        runner: Any = Runner()
        eager: Any = Identity()
        try:
            (case,) = accuracy.accuracy_cases(step, runner, eager, measures)
        finally:
            sys.path[:] = [each for each in sys.path if each != str(tmp_path)]
            sys.modules.pop("own_metric", None)
        return case, measures

    return run


@pytest.mark.parametrize(
    ("table", "measures"),
    [
        ({"top": 1, "output": "y", "min": 0}, {"accuracy_top1_y": 0.75}),
        ({"top": 2, "output": "y", "min": 0}, {"accuracy_top2_y": 1}),
        (
            {"top": 1, "output": "y", "label": "label", "min": 0},
            {"accuracy_top1_y": 0.5, "accuracy_top1_y_model": 0.75},
        ),
        (
            {"entry": "own_metric.py:right", "min": 0},
            {"accuracy_right": 0.5, "accuracy_right_model": 0.75},
        ),
        ({"measure": "max_error", "output": "y", "max": 1}, {"max_error_y": 1}),
        ({"measure": "cosine", "output": "y", "min": 0}, {"accuracy_cosine_y": 40 / 41}),
    ],
)
def test_numbers(compute: Compute, table: Any, measures: Any) -> None:
    case, found = compute(**table)
    assert case == Case(next(iter(measures)), "passed")
    assert found == pytest.approx(measures)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"min": 0.6}, "0.5 over 4 samples (the model's is 0.75), expected at least 0.6"),
        ({"max": 0.4}, "0.5 over 4 samples (the model's is 0.75), expected at most 0.4"),
        ({"max_loss": 0.2}, "0.5 over 4 samples (the model's is 0.75), expected at least 0.55"),
        ({"max_loss": 0.25}, ""),
    ],
)
def test_limits(compute: Compute, limits: Any, message: str) -> None:
    case, _ = compute(top=1, output="y", label="label", **limits)
    assert (case.status, case.message) == ("failed" if message else "passed", message)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"top": 1, "output": "z"}, "an accuracy of 'z', which is not an output"),
        ({"top": 1, "output": "y", "label": "labl"}, "the samples have no label 'labl'; did you mean 'label'?"),
        ({"entry": "own_metric.py:wrong"}, "own_metric.py:wrong returns a str; expected a number"),
    ],
)
def test_errors(compute: Compute, table: Any, message: str) -> None:
    with pytest.raises(StepError) as error:
        compute(**table)
    assert str(error.value) == message


BOX, OTHER, THIRD = [0, 0, 10, 10], [20, 20, 30, 30], [50, 50, 60, 60]


@pytest.mark.parametrize(
    ("found", "right", "precision"),
    [
        # Boxes with a score and a class of each sample; right boxes with a class.
        ([[(BOX, 0.9, 1), (OTHER, 0.8, 2)]], [[(BOX, 1), (OTHER, 2)]], 1),
        ([[(BOX, 0.9, 1)]], [[(BOX, 1), (OTHER, 1)]], 51 / 101),  # of 101 recalls, those up to a half
        ([[(BOX, 0.9, 2)]], [[(BOX, 1)]], 0),
        ([[(BOX, 0.9, 1)], []], [[(BOX, 1)], [(OTHER, 2)]], 0.5),  # of two classes
        ([[(OTHER, 0.9, 1), (BOX, 0.8, 1)]], [[(BOX, 1)]], 0.5),
        ([[(BOX, 0.9, 1), (OTHER, 0.8, 1)]], [[(BOX, 1)]], 1),
        ([[(BOX, 0.9, 1), (BOX, 0.8, 1), (OTHER, 0.7, 1)]], [[(BOX, 1), (OTHER, 1)]], (51 + 50 * 2 / 3) / 101),
        ([[([0, 0, 10, 6.2], 0.9, 1)]], [[(BOX, 1)]], 0.3),  # at overlaps of 0.5, 0.55 and 0.6
        ([[(BOX, 0.5, 1)], [(BOX, 0.9, 1)]], [[(BOX, 1)], [(THIRD, 1)]], 51 / 101 / 2),
    ],
)
def test_mean_average_precision(found: Any, right: Any, precision: float) -> None:
    made = []
    for one, other in zip(found, right, strict=True):
        result = {
            "boxes": np.array([each[0] for each in one], np.float32).reshape(-1, 4),
            "scores": np.array([each[1] for each in one], np.float32),
            "classes": np.array([each[2] for each in one]),
        }
        sample = {"boxes": np.array([each[0] for each in other]), "classes": np.array([each[1] for each in other])}
        made.append(Boxes.of(result, sample, ("boxes", "scores", "classes"), ("boxes", "classes")))
    assert mean_average_precision(made) == pytest.approx(precision)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            {"measure": "map", "output": "y", "scores": "y", "label": "label"},
            "'y' has the shape [1, 3]; expected boxes of 4 numbers",
        ),
        (
            {"measure": "map", "output": "y", "scores": "score", "label": "label"},
            "an accuracy of 'score', which is not an output",
        ),
    ],
)
def test_errors_of_numbers_of_all_samples(compute: Compute, table: Any, message: str) -> None:
    with pytest.raises(StepError) as error:
        compute(**table)
    assert str(error.value) == message


def test_labels_that_do_not_fit() -> None:
    boxes = np.zeros((2, 4))
    with pytest.raises(StepError, match=r"^'s' has 1 values for 2 boxes; expected one for each box$"):
        Boxes.of({"y": boxes, "s": np.zeros(1)}, {"right": boxes}, ("y", "s", ""), ("right", ""))
    with pytest.raises(StepError, match=r"^no sample has a right box; expected one or more$"):
        mean_average_precision([Boxes.of({"y": boxes, "s": np.zeros(2)}, {"r": boxes[:0]}, ("y", "s", ""), ("r", ""))])
