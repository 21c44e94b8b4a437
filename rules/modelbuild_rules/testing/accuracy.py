"""Metrics over a dataset that a pte_test computes from the program's results, and their allowed losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from modelbuild.api import Attrs, Context, Dep, Entry, LabelOf
from modelbuild_rules.model.methods import check_names
from modelbuild_rules.providers import Dataset
from modelbuild_rules.testing.tested_methods import TestedMethods

if TYPE_CHECKING:
    from modelbuild_rules.testing.documents import AccuracyParams


class AccuracyMetric(Attrs):
    """A number over all samples of the dataset. Set one of `top`, `measure` and `entry`."""

    top: int | None = Field(default=None, ge=1)
    """With `label`: the fraction of rows whose label is among the `top` largest elements of `output`; else the fraction
    of these elements' indices that the program and the model share."""

    label: str | None = None
    """The samples' array with the right answers: with `top` each row's index, with "map" boxes."""

    measure: Literal["cosine", "max_error", "map"] | None = None
    """The lowest cosine of `output` and the model's as vectors, the greatest absolute difference, or with `label`
    COCO's mean average precision of boxes (x1, y1, x2, y2)."""

    output: str | None = None
    """With `top` or `measure`: the output."""

    scores: str | None = None
    """With "map": the output with each box's score."""

    classes: str | None = None
    """With "map": the output with each box's class; by default all boxes have one class."""

    label_classes: str | None = None
    """With `classes`: the samples' array with each right box's class."""

    entry: Entry | None = None
    """`file.py:name` of a function of a result and its sample, both arrays by name, that returns a number (higher is
    better); the mean counts."""

    min: float | None = None
    """Minimum of the program's number."""

    max: float | None = None
    """Maximum of the program's number."""

    max_loss: float | None = Field(default=None, ge=0)
    """With `label` or `entry`: maximum loss of the program's number from the model's; 0.01 is one percentage point."""


class Accuracy(Attrs):
    """Metrics over the samples of a dataset, and their losses against the model."""

    dataset: Annotated[Dep, LabelOf(Dataset)]
    """A `dataset`."""

    metrics: tuple[AccuracyMetric, ...] = Field(min_length=1)
    """The metrics, with limits."""


def accuracy_params(
    ctx: Context[Any], given: Accuracy, tested: TestedMethods, outputs: Sequence[str] | None
) -> list[AccuracyParams]:
    """Return the step's parameters. Raises LoadingError for names that neither the model nor the dataset has, and for a
    table that contradicts itself."""
    data = ctx.provider(given.dataset, Dataset)
    if tested.measured is None:
        expected = f"expected 'method', one of: {', '.join(tested.called)}"
        raise ctx.error(("accuracy", "dataset"), f"accuracy is that of one method; {expected}")
    found: list[AccuracyParams] = []
    for index, each in enumerate(given.metrics):
        where = ("accuracy", "metrics", index)
        if problem := _problem(each):
            raise ctx.error(where, f"attribute 'accuracy.metrics[{index}]': {problem}")
        for name in ("output", "scores", "classes"):
            if (named := getattr(each, name)) is not None and outputs is not None:
                check_names(ctx, "output", (*where, name), [named], outputs)
        for name in ("label", "label_classes"):
            named = getattr(each, name)
            if named is not None and data.files and named not in data.files:
                raise ctx.error((*where, name), f"'{given.dataset}' has no files of the label '{named}'")
        found.append(
            {
                "top": each.top or 0,
                "label": each.label or "",
                "measure": each.measure or "",
                "output": each.output or "",
                "scores": each.scores or "",
                "classes": each.classes or "",
                "label_classes": each.label_classes or "",
                "entry": "" if each.entry is None else ctx.entry(each.entry),
                "min": each.min,
                "max": each.max,
                "max_loss": each.max_loss,
            }
        )
    return found


def _label_problem(each: AccuracyMetric) -> str:
    """Return the contradiction between the attributes about right answers and the others; '' if there is none."""
    if each.label is not None and each.top is None and each.measure != "map":
        return "expected 'label' with 'top' or 'map' only"
    if each.label is None and each.measure == "map":
        return "'map' needs right answers; expected 'label' as well"
    if (each.scores is not None) != (each.measure == "map"):
        return "expected 'scores' with 'map', and with it only"
    if each.classes is not None and each.measure != "map":
        return "expected 'classes' with 'map' only"
    if (each.classes is None) != (each.label_classes is None):
        return "expected both 'classes' and 'label_classes', or neither"
    return ""


def _problem(each: AccuracyMetric) -> str:
    """Return the contradiction within a table; '' if there is none."""
    if [each.top, each.measure, each.entry].count(None) != 2:
        return "expected one of 'top', 'measure' and 'entry'"
    if (each.entry is None) == (each.output is None):
        return "expected 'output' with 'top' or 'measure' only"
    if problem := _label_problem(each):
        return problem
    if each.max_loss is not None and each.label is None and each.entry is None:
        return "the model has no number of its own to lose from; expected 'max_loss' with 'label' or 'entry' only"
    if each.min is None and each.max is None and each.max_loss is None:
        return "expected 'min', 'max' or 'max_loss'"
    return ""
