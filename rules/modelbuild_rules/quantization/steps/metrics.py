"""The means of metrics over samples: of a quantized program's results, and of the results in floating point."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from modelbuild.errors import did_you_mean
from modelbuild.step import Step, StepError
from modelbuild_rules.model.steps.eager.result_metric import metric_name, metric_value
from modelbuild_rules.model.steps.eager.tensors import to_array

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import ResultMetricParams
    from modelbuild_rules.quantization.documents import MetricMeans


class Metrics:
    """The metrics of a step's parameter `metrics`, whose Python files are in the input `metric_srcs`. `outputs` are the
    names of a result's tensors. Raises StepError for a metric of an unknown output."""

    def __init__(self, step: Step, outputs: Sequence[str]) -> None:
        self._root = step.root
        self._outputs = outputs
        self._metrics: Sequence[ResultMetricParams] = step.params.get("metrics", ())
        self._values: list[list[tuple[float, float]]] = [[] for _ in self._metrics]
        for metric in self._metrics:
            if metric["top"] and metric["output"] not in outputs:
                hint = did_you_mean(metric["output"], outputs) or f"; expected {', '.join(outputs)}"
                raise StepError(f"a metric of '{metric['output']}', which is not an output{hint}")

    def add(self, found: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> None:
        """Add a sample: the result of the quantized program, and the result in floating point."""
        if not self._metrics:
            return
        one, other = ({n: to_array(t) for n, t in zip(self._outputs, each, strict=True)} for each in (found, expected))
        for metric, values in zip(self._metrics, self._values, strict=True):
            values.append((self._value(metric, one, other), self._value(metric, other, other)))

    def _value(
        self, metric: ResultMetricParams, found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]
    ) -> float:
        # Copied, because the user's function may write to its arrays.
        copies = ({name: array.copy() for name, array in each.items()} for each in (found, expected))
        return metric_value(self._root, metric, *copies)

    def means(self) -> dict[str, MetricMeans]:
        """Return the means by name."""
        return {
            f"metric {metric_name(metric)}".replace("'", ""): {
                "value": _mean(value for value, _ in values),
                "of_float": _mean(of_float for _, of_float in values),
            }
            for metric, values in zip(self._metrics, self._values, strict=True)
        }


def _mean(values: Iterable[float]) -> float | None:
    mean = float(np.mean(list(values)))
    return float(f"{mean:.6g}") if math.isfinite(mean) else None


def error_of(means: MetricMeans) -> float:
    """Return the absolute difference of a metric's means."""
    if means["value"] is None or means["of_float"] is None:
        return math.inf
    return abs(means["value"] - means["of_float"])
