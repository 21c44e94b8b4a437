"""Attributes of the cases of a pte_test: calls of a program's methods, and the sources of their inputs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from modelbuild.api import Attrs, Source
from modelbuild_rules.case_names import case_names


class Draw(Attrs):
    """Inputs that numpy's default_rng(seed) draws in the program's order."""

    seed: int = Field(ge=0)
    """Seed of all values."""

    distribution: Literal["uniform", "normal"] = "uniform"
    """Distribution of floating-point values: uniform in `range`, or normal with `mean` and `std`. Integers are uniform
    in `range`, both ends included; booleans are true with probability 1/2."""

    range: tuple[float, float] | None = None
    """Lowest and highest value; by default the input's range in the model, or 0 and 1."""

    mean: float = 0.0
    """Mean of the normal distribution."""

    std: float = Field(default=1.0, ge=0)
    """Standard deviation of the normal distribution."""

    sizes: dict[str, int] = Field(default_factory=dict)
    """Sizes of dynamic dimensions, by name; by default 2, or the nearest allowed size."""


class Generator(Draw):
    """Inputs that numpy's default_rng(seed + number of the case) draws in the program's order."""

    count: int = Field(default=1, ge=1, le=1000)
    """Number of cases to draw."""

    calls: int = Field(default=1, ge=1, le=1000)
    """Number of calls in each case, each with its own inputs: see `calls` of a case."""


class Fed(Attrs):
    """The newest output of this name from an earlier call, in eager PyTorch."""

    output: str
    """The output's name."""

    argmax: bool = False
    """Take the index of the largest element of each row (the last dimension), such as the most probable token."""


class CaseStep(Attrs):
    """Calls of one method. Each input comes from a file, an output, a count, or the generator."""

    method: str | None = None
    """The program's method; by default the test's method."""

    calls: int = Field(default=1, ge=1, le=1000)
    """Number of successive calls."""

    files: dict[str, Source] = Field(default_factory=dict)
    """Inputs from files, the same in each call."""

    feed: dict[str, Fed] = Field(default_factory=dict)
    """Inputs that are outputs of earlier calls."""

    count: dict[str, int] = Field(default_factory=dict)
    """Inputs of consecutive integers, such as positions of tokens, by the first integer. Each call continues where the
    call before ended."""

    generator: Draw | None = None
    """The generator that draws all other inputs."""


class TestCase(Attrs):
    """A case. Its inputs come from files, a generator or steps. It starts with the model's initial state."""

    name: str
    """The case's name in the report."""

    files: dict[str, Source] = Field(default_factory=dict)
    """A `.npy`, `.json` or picture for each input, read as `modelbuild run` reads it."""

    calls: tuple[dict[str, Source], ...] = ()
    """Instead of `files`: a table of files for each of several successive calls, all of which are compared. A call
    starts with the state that the previous call left, such as a cache of keys and values."""

    generator: Generator | None = None
    """The generator that draws the inputs."""

    steps: tuple[CaseStep, ...] = ()
    """Instead of `files`, `calls` and `generator`: successive calls of several methods, such as `prefill` and
    `decode`."""

    def names(self) -> list[str]:
        """Return the names of the cases in the report."""
        return case_names(self.name, self.generator.count if self.generator else 1)

    def methods(self, default: str | None) -> list[str | None]:
        """Return the method of each step."""
        return [each.method or default for each in self.steps] or [default]
