"""The comparison of a program with its model: tolerances, metrics, and the inputs and parameters of the steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pydantic import Field

from modelbuild.api import Artifact, Attrs, Context
from modelbuild_rules.model.methods import check_names
from modelbuild_rules.model.result_metric import ResultMetric, result_metric_params
from modelbuild_rules.providers import Program
from modelbuild_rules.testing.accuracy import accuracy_params
from modelbuild_rules.testing.case_params import case_params
from modelbuild_rules.testing.tested_methods import TestedMethods

if TYPE_CHECKING:
    from modelbuild_rules.testing.documents import AccuracyParams, MetricParams, ToleranceParams


class OutputTolerance(Attrs):
    """Limits of an output: |a - b| <= abs + rel * |b| for each value, with b of eager PyTorch, and the cosine."""

    abs: float | None = None
    """Allowed absolute difference; by default 1e-4 for float32 and float64, 1e-2 for float16, 4e-2 for bfloat16, and 0
    for integers and booleans."""

    rel: float | None = None
    """Allowed relative difference; the same defaults."""

    cosine: float | None = None
    """Minimum cosine of the outputs as vectors. With `cosine`, `abs` and `rel` have no defaults."""

    ignore: bool = False
    """Do not compare this output."""


class Tolerance(OutputTolerance):
    """Limits of all outputs, and of some outputs by name."""

    outputs: dict[str, OutputTolerance] = Field(default_factory=dict)
    """Limits of single outputs, instead of the limits of all."""


class Metric(ResultMetric):
    """A number from the program's outputs and eager PyTorch's. Set `entry`, or `top` and `output`."""

    min: float | None = None
    """Minimum of the number."""

    max: float | None = None
    """Maximum of the number."""


@dataclass(frozen=True)
class Comparison:
    """Inputs and parameters of the steps that run and compare the program.

    inputs    files of the model, cases and program, and the metrics' Python files (`metric_srcs`)
    params    the methods, the cases, the tolerances and the metrics
    accuracy  the metrics over a dataset
    """

    inputs: Mapping[str, Artifact | tuple[Artifact, ...]]
    params: Mapping[str, Any]
    accuracy: Sequence[AccuracyParams]

    @property
    def selected(self) -> bool:
        """Return whether a filter selects some of the cases. Measurements are then incomplete."""
        return "filter" in self.params


def comparison(ctx: Context[Any], program: Program, tested: TestedMethods) -> Comparison:
    """Return the comparison that a pte_test declares. Raises LoadingError for names that the model does not have, and
    for tables that contradict themselves."""
    attrs, outputs = ctx.attrs, tested.outputs()
    files: dict[str, tuple[Artifact, ...]] = {}
    cases = []
    for index, case in enumerate(attrs.cases):
        params, given = case_params(ctx, index, case, tested)
        cases.append(params)
        files |= given
    if outputs is not None:
        check_names(ctx, "output", ("tolerance", "outputs"), attrs.tolerance.outputs, outputs)
    metrics = [_metric(ctx, index, metric, outputs) for index, metric in enumerate(attrs.metrics)]
    accuracy = accuracy_params(ctx, attrs.accuracy, tested, outputs) if attrs.accuracy is not None else []
    entries = [
        each.entry for each in (*attrs.metrics, *(attrs.accuracy.metrics if attrs.accuracy else ())) if each.entry
    ]
    return Comparison(
        {
            **tested.eager_inputs(),
            **files,
            "metric_srcs": ctx.files(entries, attrs.srcs),
            **{f"program.{name}": artifact for name, artifact in program_files(program).items()},
        },
        {
            **({"filter": ctx.test_filter} if ctx.test_filter else {}),
            **({"method": tested.measured} if tested.measured is not None else {}),
            "methods": tested.params(),
            "cases": cases,
            "tolerance": _tolerance(attrs.tolerance),
            "outputs": {name: _tolerance(each) for name, each in attrs.tolerance.outputs.items()},
            "metrics": metrics,
        },
        accuracy,
    )


def program_files(program: Program) -> dict[str, Artifact]:
    """Return the files that a step needs to run a program, by name."""
    found = {"pte": program.pte, "delegation": program.delegation, "signature": program.signature}
    return found | ({"ptd": program.ptd} if program.ptd else {})


def _tolerance(tolerance: OutputTolerance) -> ToleranceParams:
    """Return a tolerance as JSON values. If `cosine` is set, `abs` and `rel` count only if they are set too; otherwise
    None stands for the default of the output's type."""
    values = cast("ToleranceParams", tolerance.model_dump(exclude={"outputs"}))
    if tolerance.cosine is not None:
        given = tolerance.model_fields_set & {"abs", "rel"}
        unset = 0.0 if given else None
        if "abs" not in given:
            values["abs"] = unset
        if "rel" not in given:
            values["rel"] = unset
    return values


def _metric(ctx: Context[Any], index: int, metric: Metric, outputs: Sequence[str] | None) -> MetricParams:
    place = ("metrics", index)
    params = result_metric_params(ctx, place, metric, outputs)
    if metric.min is None and metric.max is None:
        raise ctx.error(place, f"attribute 'metrics[{index}]': expected 'min' or 'max'")
    return {**params, "min": metric.min, "max": metric.max}
