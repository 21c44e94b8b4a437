"""A backend, as its declaration describes it: everything that rules, steps and commands need to know of it.

A backend is an extension of `backend_stack`, from any rule package. Its declaration (a `Backend`, or an instance of a
subclass that derives more from attributes and device) names up to two step modules: one that partitions
(`modelbuild_rules.program.steps.lowering.partitioning.Partitioning`), and one that compiles a partition.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator

from modelbuild.api import Attrs, Extension

_OPERATOR = re.compile(r"[A-Za-z_]\w*\.\w+\.\w+\Z")


def _operator(text: str) -> str:
    if not _OPERATOR.match(text):
        raise ValueError(f"'{text}' is not an operator; expected namespace.name.overload, as in aten.add.Tensor")
    return text


def as_set(values: tuple[str, ...]) -> tuple[str, ...]:
    """One order, and each value once: two ways to write a set are one key."""
    return tuple(sorted(set(values)))


Operator = Annotated[str, AfterValidator(_operator)]
"""An operator as delegation.json names it: `aten.add.Tensor`, `aten.linear.default`."""

Operators = Annotated[tuple[Operator, ...], AfterValidator(as_set)]

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Prerequisite:
    """A folder that compile steps read and that does not depend on the program: the step that makes it, its name as an
    input and output, the step's parameters and tools."""

    step: str
    name: str
    params: Values
    tools: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Beside:
    """A file beside a program, merged from one that compile steps write for each partition.

    name     of the output, and of the file that a compile step writes into its folder
    merging  import name of the module whose `merged(texts)` returns the text of the whole
    """

    name: str
    merging: str


@dataclass(frozen=True)
class Backend(Extension):
    """The declaration of a backend. Attributes and facts that no tuple names are in no key.

    partitioning  import name of the module that decides which nodes it takes and prepares them; '' for a backend that
                  takes whatever the others leave and compiles nothing
    compiling     import name of the step that compiles a partition
    partition     attributes that decide which nodes it takes
    compile       attributes that decide what a partition is compiled to
    device        facts of the device (fields of DeviceTarget) that decide what a partition is compiled to
    tools         distributions whose versions decide what a partition is compiled to
    examples      whether the partition step runs the program on example inputs
    """

    partitioning: str = ""
    compiling: str = ""
    partition: tuple[str, ...] = ()
    compile: tuple[str, ...] = ()
    device: tuple[str, ...] = ()
    examples: bool = False

    @property
    def takes_the_rest(self) -> bool:
        """Whether it takes every node that the backends before it leave, as ExecuTorch's own kernels do."""
        return not self.partitioning

    def contradiction(self, table: Attrs) -> tuple[str, str] | None:
        """Return the attribute to change and the problem where attributes exclude each other."""
        return None

    def problem(self, attributes: Values, facts: Values) -> str:
        """Why programs for the device can't be built with these attributes; '' when they can."""
        return ""

    def offered(self, attributes: Values, facts: Values) -> dict[str, Any]:
        """What the partition step gets to see."""
        return {name: attributes[name] for name in self.partition}

    def compiled(self, attributes: Values, facts: Values) -> dict[str, Any]:
        """What the compile step gets to see. `facts` are the device's, where `device` names any."""
        return {name: attributes[name] for name in self.compile} | {name: facts[name] for name in self.device}

    def prerequisite(self, attributes: Values, facts: Values) -> Prerequisite | None:
        """What compiling takes beside the partition."""
        return None

    def compile_tools(self, attributes: Values) -> tuple[str, ...]:
        """Distributions whose versions decide what is made of a partition."""
        return self.tools

    def gpus(self, attributes: Values) -> int:
        """GPUs that compiling takes."""
        return 0

    def beside(self, attributes: Values) -> Beside | None:
        """The file that a program has beside it because of this backend."""
        return None

    def partition_tools(self, attributes: Values) -> tuple[str, ...]:
        """Distributions that decide which nodes it takes, beside those that every lowering uses."""
        return ()
