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
from modelbuild_rules.testing.steps.test_report import Case
from modelbuild_runtime.describe import Port
from modelbuild_runtime.shapes import Dim

PORT = Port("x", "tensor", "float32", (Dim.fixed(1), Dim.fixed(3)))
DEFAULTS = {"top": 0, "label": "", "measure": "", "output": "", "entry": "", "min": None, "max": None, "max_loss": None}
# The model is the identity; the program confuses the first two classes of the third sample.
SAMPLES = [[9, 1, 2], [1, 9, 2], [5, 4, 0], [0, 1, 9]]
LABELS = [0, 1, 0, 1]


class Runner:
    def run(self, calls: Any) -> Any:
        return [{"y": x[:, [1, 0, 2]] if x[0, 0] == 5 else x} for x in (call["x"] for call in calls)]


def eager(calls: Any) -> Any:
    return [{"y": call["x"]} for call in calls]


Compute = Callable[..., tuple[Case, Mapping[str, float]]]


@pytest.fixture
def compute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compute:
    """Return a function that computes one number on the samples."""
    monkeypatch.setattr(accuracy, "open_program", lambda *_: None)
    monkeypatch.setattr(accuracy, "tensor_inputs", lambda *_: [PORT])
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
        step = Step({"accuracy": [DEFAULTS | table]}, {"samples.archives": tuple(files)}, {}, tmp_path)
        runner: Any = Runner()
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
