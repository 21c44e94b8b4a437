"""Checks of outputs and metrics, for tests and the search for a wrong node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

import modelbuild_runtime
from modelbuild.errors import did_you_mean
from modelbuild.step import Step, StepError
from modelbuild_rules.model.steps.eager.result_metric import metric_name, metric_value
from modelbuild_rules.testing.steps.parity.compare import compare, default_tolerance
from modelbuild_rules.testing.steps.parity.programs import Arrays, methods_of

if TYPE_CHECKING:
    from modelbuild_rules.testing.documents import MetricParams, ToleranceParams

# The dtype of each output of each method by name, as "bfloat16" ('' for an output that is not a tensor).
OutputTypes: TypeAlias = Mapping[str, Mapping[str, str]]


def output_types(step: Step, program: modelbuild_runtime.Description) -> OutputTypes:
    """Return the types of the outputs of tested methods. Raises StepError for a tolerance or a metric of an unknown
    output."""
    methods = methods_of(program, step.params["methods"])
    types = {name: {port.name: port.dtype or "" for port in each.outputs} for name, each in methods.items()}
    known = {name for own in types.values() for name in own}
    metrics: Sequence[MetricParams] = step.params["metrics"]
    given = [("tolerance for", name) for name in step.params["outputs"]]
    for what, name in (*given, *(("metric of", each["output"]) for each in metrics if each["top"])):
        if name not in known:
            raise StepError(f"a {what} '{name}', which is not an output{did_you_mean(name, known)}")
    return types


def tolerance_of(step: Step, output: str, dtype: str) -> ToleranceParams:
    """Return the tolerance of an output with this dtype."""
    outputs: Mapping[str, ToleranceParams] = step.params["outputs"]
    given = outputs.get(output) or cast("ToleranceParams", step.params["tolerance"])
    if given["cosine"] is not None:
        return given
    default = default_tolerance(dtype)
    absolute, relative = (default if given[each] is None else given[each] for each in ("abs", "rel"))
    return {**given, "abs": absolute, "rel": relative}


def wrong_outputs(step: Step, found: Arrays, expected: Arrays, dtypes: Mapping[str, str]) -> dict[str, str]:
    """Return how outputs of a method exceed their tolerance, by name."""
    problems = {}
    for output, wanted in expected.items():
        tolerance = tolerance_of(step, output, dtypes[output])
        problem = "" if tolerance["ignore"] else compare(found[output], wanted, tolerance)
        if problem:
            problems[output] = problem
    return problems


def wrong_metrics(step: Step, found: Arrays, expected: Arrays) -> list[str]:
    """Return a message for each metric of a call that is out of bounds. Raises StepError for a result that is not a
    number."""
    problems = []
    metrics: Sequence[MetricParams] = step.params["metrics"]
    for metric in metrics:
        if metric["top"] and metric["output"] not in expected:
            continue  # an output of another method
        value = metric_value(step.root, metric, found, expected)
        low, high = metric["min"], metric["max"]
        if not ((low is None or value >= low) and (high is None or value <= high)):
            bound = f"at least {low}" if high is None else f"at most {high}" if low is None else f"{low} to {high}"
            problems.append(f"metric {metric_name(metric)} is {value:.6g}, expected {bound}")
    return problems
