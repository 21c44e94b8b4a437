"""Attributes of the cases of a pte_test: calls of a program's methods, and the sources of their inputs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from modelbuild.api import Attrs, Source
from modelbuild_rules.case_names import case_names


class Draw(Attrs):
    """Inputs drawn by numpy's default_rng(seed), one after another in the program's order."""

    seed: int = Field(ge=0)
    """Seed of all values."""

    distribution: Literal["uniform", "normal"] = "uniform"
    """Distribution of floating-point values: uniform in `range`, or normal with `mean` and `std`. Integers are uniform
    in `range`, both ends included; booleans are true with probability 1/2."""

    range: tuple[float, float] | None = None
    """Lowest and highest value; by default the range that the model declares for the input, else 0 and 1."""

    mean: float = 0.0
    """Mean of the normal distribution."""

    std: float = Field(default=1.0, ge=0)
    """Standard deviation of the normal distribution."""

    sizes: dict[str, int] = Field(default_factory=dict)
    """Sizes of dynamic dimensions, by name; by default 2, or the nearest allowed size."""


class Generator(Draw):
    """Inputs drawn by numpy's default_rng(seed + number of the case), one after another in the program's order."""

    count: int = Field(default=1, ge=1, le=1000)
    """Number of cases to draw."""

    calls: int = Field(default=1, ge=1, le=1000)
    """Number of calls in each case, one after another, with inputs of their own: see `calls` of a case."""


class Fed(Attrs):
    """The newest output of this name that a call before returned, in eager PyTorch."""

    output: str
    """The output's name."""

    argmax: bool = False
    """Take the index of the largest element of each row (along the last dimension), such as the most probable token."""


class CaseStep(Attrs):
    """Calls of one method. Each input comes from a file, an output, a count, or else the generator."""

    method: str | None = None
    """The program's method; by default that of the test."""

    calls: int = Field(default=1, ge=1, le=1000)
    """Number of calls, one after another."""

    files: dict[str, Source] = Field(default_factory=dict)
    """Inputs from files, the same in each call."""

    feed: dict[str, Fed] = Field(default_factory=dict)
    """Inputs that are outputs of calls before."""

    count: dict[str, int] = Field(default_factory=dict)
    """Inputs of consecutive integers, by the first one: each call goes on where the call before ended, such as the
    positions of tokens."""

    generator: Draw | None = None
    """The generator that draws all other inputs."""


class TestCase(Attrs):
    """A case: each input from a file, or all inputs from a generator, or steps. It starts with the model's initial
    state."""

    name: str
    """The case's name in the report."""

    files: dict[str, Source] = Field(default_factory=dict)
    """A `.npy`, `.json` or picture for each input, read as `modelbuild run` reads it."""

    calls: tuple[dict[str, Source], ...] = ()
    """Instead of `files`: several calls, one after another, each a table of files. State that a call leaves, such as a
    cache of keys and values, is that of the next call. The outputs of each call are compared."""

    generator: Generator | None = None
    """The generator that draws the inputs."""

    steps: tuple[CaseStep, ...] = ()
    """Instead of these: calls of several methods, such as `prefill` and then `decode`, one after another like
    `calls`."""

    def names(self) -> list[str]:
        """Return the names of the cases in the report."""
        return case_names(self.name, self.generator.count if self.generator else 1)

    def methods(self, default: str | None) -> list[str | None]:
        """Return the method of each step."""
        return [each.method or default for each in self.steps] or [default]
