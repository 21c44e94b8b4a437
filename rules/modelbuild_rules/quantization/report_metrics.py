"""The metrics of a quantized model's report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from modelbuild.api import Context, Entry
from modelbuild_rules.model.methods import by_method, place_of
from modelbuild_rules.model.result_metric import ResultMetric, result_metric_params
from modelbuild_rules.providers import EagerMethod

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import ResultMetricParams


def report_metrics(ctx: Context[Any], method: str, eager: EagerMethod | None) -> list[ResultMetricParams]:
    """Return the parameters of the metrics in a method's report. Raises LoadingError for an unknown output, and for a
    table that contradicts itself."""
    given = ctx.attrs.metrics
    outputs = eager.params["outputs"] if eager is not None else None
    place = place_of("metrics", given, method)
    own: Sequence[ResultMetric] = by_method(given, method) or ()
    return [result_metric_params(ctx, (*place, index), each, outputs) for index, each in enumerate(own)]


def metric_entries(given: Sequence[ResultMetric] | Mapping[str, Sequence[ResultMetric]]) -> list[Entry]:
    """Return the functions of the metrics of all methods."""
    lists = given.values() if isinstance(given, Mapping) else (given,)
    return [metric.entry for metrics in lists for metric in metrics if metric.entry is not None]
