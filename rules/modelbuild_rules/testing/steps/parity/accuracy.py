"""Compute metrics over a dataset from a program's results and its model's, and check their limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from modelbuild.errors import did_you_mean
from modelbuild.step import Step, StepError
from modelbuild_rules.model.steps.eager.entry import load_function
from modelbuild_rules.model.steps.eager.result_metric import top_agreement
from modelbuild_rules.quantization.steps.samples import count_samples, read_samples
from modelbuild_rules.testing.steps.parity.average_precision import Boxes, mean_average_precision
from modelbuild_rules.testing.steps.parity.cases import Planned
from modelbuild_rules.testing.steps.parity.compare import vector_cosine
from modelbuild_rules.testing.steps.parity.eager import Eager
from modelbuild_rules.testing.steps.parity.programs import Arrays, description_of, method_of, tensor_ports
from modelbuild_rules.testing.steps.parity.runners import ProgramRunner
from modelbuild_rules.testing.steps.test_report import Case
from modelbuild_runtime.errors import ProgramError

if TYPE_CHECKING:
    from modelbuild_rules.testing.documents import AccuracyParams

_ROUNDING = 1e-9  # rounding error of a difference of means
_COMBINED: Mapping[str, Callable[[Any], float]] = {
    "cosine": min,
    "max_error": max,
    "map": mean_average_precision,
}


def accuracy_cases(step: Step, runner: ProgramRunner, eager: Eager, measures: dict[str, float]) -> list[Case]:
    """Return a case for each number, and add the numbers to `measures`. Raises StepError for an unknown output or
    label, and for a function that returns no number."""
    wanted: Sequence[AccuracyParams] = step.params.get("accuracy", ())
    if not wanted:
        return []
    method: str = step.params["method"]
    described = method_of(description_of(step, "program"), method)
    ports = tensor_ports(described)
    scores: list[list[tuple[Any, Any]]] = [[] for _ in wanted]
    total = count_samples(step)
    for number, sample in enumerate(read_samples(step, ports), 1):
        step.progress("sample", number, total)
        inputs = {port.name: sample[port.name] for port in ports}
        calls, (expected,) = eager.run([Planned(f"sample {number}", method, described, inputs, {})])
        try:
            (found,) = runner.run(calls)
        except ProgramError as error:
            return [Case("accuracy", "failed", message=f"sample {number}: {error}")]
        for each, own in zip(wanted, scores, strict=True):
            own.append(_scores(step, each, found, expected, sample))
    return [_case(each, own, measures) for each, own in zip(wanted, scores, strict=True)]


def name_of(each: AccuracyParams) -> str:
    """Return the name of a number in the report and in the history: `accuracy_top1_quarter`, `accuracy_cosine_boxes`,
    `max_error_boxes`, `accuracy_map_boxes`, `accuracy_overlap`. In the history, higher accuracies are
    better, and lower values of other numbers."""
    if each["entry"]:
        return f"accuracy_{each['entry'].partition(':')[2]}"
    if each["measure"] == "max_error":
        return f"max_error_{each['output']}"
    return f"accuracy_{each['measure'] or 'top' + str(each['top'])}_{each['output']}"


def _case(each: AccuracyParams, scores: Sequence[tuple[Any, Any]], measures: dict[str, float]) -> Case:
    """Return the case of a number, from the scores of the program and of the model on each sample."""
    name = name_of(each)
    combine = _COMBINED.get(each["measure"], lambda values: float(np.mean(values)))
    value, model = (combine([pair[place] for pair in scores]) for place in (0, 1))
    measures[name] = value
    of_model = ""
    if each["label"] or each["entry"]:
        measures[f"{name}_model"] = model
        of_model = f" (the model's is {model:.6g})"
    least, most = [each["min"]], [each["max"]]
    if each["max_loss"] is not None:
        least.append(model - each["max_loss"])
    missed = [f"at least {limit:.6g}" for limit in least if limit is not None and value < limit - _ROUNDING]
    missed += [f"at most {limit:.6g}" for limit in most if limit is not None and value > limit + _ROUNDING]
    message = f"{value:.6g} over {len(scores)} samples{of_model}, expected {' and '.join(missed)}" if missed else ""
    return Case(name, "failed" if missed else "passed", message=message)


def _scores(
    step: Step, each: AccuracyParams, found: Arrays, expected: Arrays, sample: Mapping[str, np.ndarray]
) -> tuple[Any, Any]:
    """Return the scores of the program's result and of the model's: numbers, or the counts for a number over all
    samples."""
    if each["entry"]:
        function = load_function(step.root, each["entry"])
        scores = [_number(each["entry"], function(result, sample)) for result in (found, expected)]
        return scores[0], scores[1]
    output = each["output"]
    for name in (output, *filter(None, (each["scores"], each["classes"]))):
        if name not in expected:
            raise StepError(f"an accuracy of '{name}', which is not an output{did_you_mean(name, expected)}")
    for name in filter(None, (each["label"], each["label_classes"])):
        if name not in sample:
            hint = did_you_mean(name, sample) or f"; expected {', '.join(sample)}"
            raise StepError(f"the samples have no label '{name}'{hint}")
    one, other = found[output], expected[output]
    if each["measure"] == "map":
        names, label = (output, each["scores"], each["classes"]), (each["label"], each["label_classes"])
        return Boxes.of(found, sample, names, label), Boxes.of(expected, sample, names, label)
    if each["measure"] == "max_error":
        same = one.shape == other.shape
        return (float(np.abs(one.astype(np.float64) - other).max(initial=0.0)) if same else float("inf")), 0.0
    if each["measure"] == "cosine":
        same = one.shape == other.shape
        return (vector_cosine(*(array.astype(np.float64).ravel() for array in (one, other))) if same else -1.0), 1.0
    if not each["label"]:
        return top_agreement(one, other, each["top"]), 1.0
    labels = sample[each["label"]].ravel()
    return _hits(one, labels, each["top"]), _hits(other, labels, each["top"])


def _hits(array: np.ndarray, labels: np.ndarray, count: int) -> float:
    """Return the fraction of rows whose label is among the largest elements."""
    rows = array.reshape(-1, array.shape[-1] if array.ndim else 1)
    if len(rows) != len(labels):
        raise StepError(f"{len(labels)} labels for {len(rows)} rows; expected a label for each row of the output")
    best = np.argsort(-rows.astype(np.float64), axis=1, kind="stable")[:, :count]
    return float(np.mean([label in row for label, row in zip(labels, best, strict=True)]))


def _number(entry: str, value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise StepError(f"{entry} returns a {type(value).__name__}; expected a number") from error
