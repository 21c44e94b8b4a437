"""Metrics: numbers computed from a result and the result that is expected, by a function of the workspace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field

from modelbuild.api import Attrs, Context, Entry
from modelbuild_rules.model.inputs import Place
from modelbuild_rules.model.methods import check_names

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import ResultMetricParams


class ResultMetric(Attrs):
    """A number from the outputs and the expected outputs, as for a `Metric`."""

    entry: Entry | None = None
    """`file.py:name` of a function `(outputs, expected)` of arrays by name, which returns the number."""

    top: int | None = Field(default=None, ge=1)
    """The fraction of the indices of the `top` largest elements of each row (the last dimension) of `output` that both
    results share. An output of integers contains the indices itself."""

    output: str | None = None
    """With `top`: the output's name."""


def result_metric_params(
    ctx: Context[Any], place: Place, metric: ResultMetric, outputs: Sequence[str] | None
) -> ResultMetricParams:
    """Return the parameters of a metric at a place. `outputs`: the model's, if known. Raises LoadingError for a table
    that contradicts itself, and for an unknown output."""
    below = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in place[1:])
    shown = f"attribute '{place[0]}{below}'"
    if (metric.entry is None) == (metric.top is None):
        raise ctx.error(place, f"{shown}: expected 'entry' or 'top'")
    if (metric.top is None) != (metric.output is None):
        raise ctx.error(place, f"{shown}: expected 'top' and 'output' together")
    if metric.output is not None and outputs is not None:
        check_names(ctx, "output", (*place, "output"), [metric.output], outputs)
    return {
        "entry": "" if metric.entry is None else ctx.entry(metric.entry),
        "top": metric.top or 0,
        "output": metric.output or "",
    }
