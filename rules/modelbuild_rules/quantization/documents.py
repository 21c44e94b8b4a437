"""The JSON documents of quantization, as types.

For type checkers only: import it under `if TYPE_CHECKING`, which leaves it out of every step's key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict


class UsedQuantizer(TypedDict):
    """An entry of the parameter `quantizers`: a quantizer of the recipe."""

    kind: str
    """Its name, as the `type` of its table."""

    quantizing: str
    """Import name of the module that makes torchao's quantizer."""

    attributes: Mapping[str, Any]
    """Its attributes: all for the conversion; for the calibration, the attributes that decide the calibration."""


class GeneratedParams(TypedDict):
    """The parameters of the step that generates samples."""

    entry: str
    """`path/in/workspace.py:name` of the function."""

    kwargs: Mapping[str, Any]
    """Its arguments."""

    max_samples: int | None
    """Number of samples after which it stops."""

    seed: int
    """Seed of torch, random and numpy.random."""


class RecipeParams(TypedDict):
    """The parameters of the calibration and of the conversion."""

    quantizers: Sequence[UsedQuantizer]


class Layer(TypedDict):
    """A module whose own operators a recipe quantizes."""

    name: str
    """Its qualified name; '' for the model itself."""

    operators: Sequence[str]
    """The operators, as "aten.linear.default"."""

    tables: Sequence[int]
    """Indices of the recipe's tables that take the operators."""

    parameters: int
    """Number of weights and biases."""


Layers = Sequence[Layer]
"""layers.json: layers in the order of the program."""


class MetricMeans(TypedDict):
    """The means of a metric over samples; None for a mean that is not finite."""

    value: float | None
    """Of the quantized program's results, which are compared with those in floating point."""

    of_float: float | None
    """Of the results in floating point, compared with themselves."""


class Measured(TypedDict):
    """measured.json: the error of a quantized program on samples. An error is the norm of an output's differences from
    the program in floating point, as a fraction of the output's norm; for types other than floating point, the square
    root of the fraction of elements that differ. None is infinite."""

    error: float | None
    """The error of the first metric; without metrics, the greatest error of an output that is not in `after`, or of a
    tensor before a selection."""

    output: str
    """The output or metric with this error."""

    outputs: Mapping[str, float | None]
    """The errors of all outputs, of the metrics, and of the tensors that the first selections of rows read, as
    `before topk`."""

    metrics: Mapping[str, MetricMeans]
    """The metrics, by names such as `metric overlap`. In `outputs`, the error of a metric is the absolute difference of
    its means."""

    after: Mapping[str, str]
    """The outputs that depend on a selection of rows by values, with its operator, as "topk"."""

    varies: Sequence[str]
    """The outputs whose lengths differ from those in floating point."""

    samples: int


class SensitiveLayer(TypedDict):
    """A layer in a sensitivity report."""

    name: str
    operators: Sequence[str]
    parameters: int

    error: float | None
    """The error when only this layer is quantized."""

    output: str
    """The output with this error."""

    rest: float | None
    """The expected error when this layer and all above it stay in floating point: errors add as squares."""

    outputs: Mapping[str, float | None]
    """The errors of all outputs, as in Measured."""

    metrics: Mapping[str, float | None]
    """The means of the metrics."""


class LeftInFloat(TypedDict):
    """Layers to leave in floating point."""

    exclude: Sequence[str]
    """Their names, for the attribute `exclude` of quantizers."""

    error: float | None
    """The measured error without these layers."""

    metric: float | None
    """The measured mean of the metric that counts; None without metrics, and beside an expected error."""

    parameters: int
    """Number of weights and biases."""

    tables: Sequence[str]
    """The kinds of the tables that quantize them; none if the recipe has one table."""


class OutputSensitivity(TypedDict):
    """An output in a sensitivity report, a tensor before a selection, or a metric."""

    error: float | None
    """The measured error of the whole recipe."""

    after: str | None
    """As in Measured."""

    varies: bool
    """True if its length differs from that in floating point."""

    metric: MetricMeans | None
    """The means of a metric; None for an output."""


class Table(TypedDict):
    """An entry of the parameter `tables` of the step that ranks layers: a table of the recipe."""

    kind: str
    excludes: bool
    """True if it has the attribute `exclude`."""


class Sensitivity(TypedDict):
    """sensitivity.json, which `modelbuild quantize-report` prints."""

    version: int
    samples: int

    error: float | None
    """The measured error of the whole recipe."""

    output: str
    """The output with this error."""

    parameters: int
    """Number of weights and biases of all layers."""

    layers: Sequence[SensitiveLayer]
    """From the most sensitive layer to the least."""

    leave: LeftInFloat | None
    """None if the error is spread over many layers."""

    fixed: Sequence[str]
    """The layers that no attribute `exclude` leaves in floating point, because their tables have none."""

    outputs: Mapping[str, OutputSensitivity]
    """By name."""


Modules = Mapping[str, str]
"""modules.json: by node of the exported program, the qualified name of its innermost module."""

Origins = Mapping[str, str]
"""origins.json: by node of the quantized program, the node of the float program that it was made from."""
