"""The JSON documents of tests, as types.

For type checkers only: import it under `if TYPE_CHECKING`, which leaves it out of every step's key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

from modelbuild_rules.model.documents import ModelParams, ResultMetricParams


class ToleranceParams(TypedDict):
    """The limits of an output's differences from eager PyTorch."""

    abs: float | None
    """Allowed absolute difference; None for the default of the output's type or, with `cosine`, for no limit."""

    rel: float | None
    """Allowed difference relative to the expected value, added to `abs`; None likewise."""

    cosine: float | None
    """Minimum cosine of the angle between both outputs, as vectors; None for no minimum."""

    ignore: bool
    """True if the output is not compared."""


class DrawParams(TypedDict):
    """A generator of inputs."""

    seed: int
    distribution: Literal["uniform", "normal"]
    range: tuple[float, float] | None
    """Lowest and highest value; None for the range that the model declares, else 0 and 1."""

    mean: float
    std: float
    sizes: Mapping[str, int]
    """Sizes of dynamic dimensions, by name."""


class FedParams(TypedDict):
    """An input that is an output of an earlier call."""

    output: str
    argmax: bool
    """True if it is the index of the largest element of each row."""


class CaseStepParams(TypedDict):
    """Calls of one method."""

    method: str
    calls: int
    files: Sequence[str]
    """Names of inputs from files, which are the step's inputs `case.<index>.<step>.<input>`."""

    feed: Mapping[str, FedParams]
    """By input."""

    count: Mapping[str, int]
    """The first integer, by input."""

    generator: DrawParams | None
    """The generator of all other inputs."""


class CaseParams(TypedDict):
    """A case, or several cases that a generator draws."""

    name: str
    drawn: int
    """Number of cases that a generator draws; 0 for a case without a generator for all inputs."""

    steps: Sequence[CaseStepParams]


class MethodParams(TypedDict):
    """A method that a test calls."""

    eager: ModelParams
    inputs: str
    """Prefix of the names of the step's inputs for `eager`."""

    module: int
    """Number of its module; methods with the same number share their state."""


class MetricParams(ResultMetricParams):
    """A number computed from both results, and its limits."""

    min: float | None
    max: float | None


class AccuracyParams(TypedDict):
    """A number over the samples of a dataset."""

    top: int
    """Number of largest elements of an output; 0 with `measure` and `entry`."""

    label: str
    """Name of the samples' array with the right indices; '' for the indices of the model."""

    measure: Literal["", "cosine", "max_error", "map"]
    output: str

    scores: str
    """With "map": the output with the boxes' scores. `classes`: the output with the boxes' classes. `label_classes`:
    the samples' array with the right classes. '' for boxes of one class."""

    classes: str
    label_classes: str

    entry: str
    """`path:name` of a function; '' for none."""

    min: float | None
    max: float | None
    max_loss: float | None


class GpuNeeds(TypedDict):
    """A program's requirements on GPUs."""

    count: int
    """Number of GPUs that the test requests."""

    index: int
    """Index of the GPU that runs the program."""

    capabilities: Sequence[str]
    """Compute capabilities that the program is compiled for, as "8.6"; empty for any."""


class GpusFound(TypedDict):
    """The GPUs that a CUDA runtime finds."""

    capabilities: Sequence[str]
    """Compute capability of each, as "8.6"."""

    problem: str
    """The reason if no GPU was found."""
