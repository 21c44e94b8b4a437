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
    """Of floating-point values: uniform in `range`, or normal with `mean` and `std`. Integers are uniform in `range`,
    both ends included; half of the booleans are true."""

    range: tuple[float, float] | None = None
    """Lowest and highest value; by default the input's range in the model, or 0 and 1."""

    mean: float = 0.0
    """Mean of a normal distribution."""

    std: float = Field(default=1.0, ge=0)
    """Standard deviation of the normal distribution."""

    sizes: dict[str, int] = Field(default_factory=dict)
    """Sizes of dynamic dimensions; by default 2, or the nearest allowed size."""


class Generator(Draw):
    """As `Draw`, by numpy's default_rng(seed + number of the case)."""

    count: int = Field(default=1, ge=1, le=1000)
    """Number of cases to draw."""

    calls: int = Field(default=1, ge=1, le=1000)
    """Number of calls in each case, with different inputs."""


class Fed(Attrs):
    """The newest output of an earlier call, in eager PyTorch."""

    output: str
    """The output's name."""

    argmax: bool = False
    """Take the index of the largest element of each row (the last dimension)."""


class CaseStep(Attrs):
    """Calls of one method, with inputs from files, outputs, a count and the generator."""

    method: str | None = None
    """The program's method; by default the test's."""

    calls: int = Field(default=1, ge=1, le=1000)
    """Number of calls."""

    files: dict[str, Source] = Field(default_factory=dict)
    """Inputs from files, the same in each call."""

    feed: dict[str, Fed] = Field(default_factory=dict)
    """Outputs of earlier calls as inputs."""

    count: dict[str, int] = Field(default_factory=dict)
    """Inputs of consecutive integers, such as positions of tokens, by the first integer. Calls continue where the last
    ended."""

    generator: Draw | None = None
    """Draws all other inputs."""


class TestCase(Attrs):
    """A case: inputs from files, a generator or steps. It starts with the model's initial state."""

    name: str
    """The case's name in the report."""

    files: dict[str, Source] = Field(default_factory=dict)
    """A `.npy`, `.json` or picture for each input, as `modelbuild run` reads it."""

    calls: tuple[dict[str, Source], ...] = ()
    """Instead of `files`: a table of files for each of several successive calls, which all are compared and share a
    state."""

    generator: Generator | None = None
    """Draws the inputs."""

    steps: tuple[CaseStep, ...] = ()
    """Instead of `files`, `calls` and `generator`: successive calls of several methods."""

    def names(self) -> list[str]:
        """Return the names of the cases in the report."""
        return case_names(self.name, self.generator.count if self.generator else 1)

    def methods(self, default: str | None) -> list[str | None]:
        """Return the method of each step."""
        return [each.method or default for each in self.steps] or [default]
