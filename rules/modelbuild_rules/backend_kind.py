"""What a kind of backend is to the rules: which of its attributes and of the device's facts decide what."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator

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
class Kind:
    """What deciding and compiling depend on. What stands in no tuple is in no key.

    partition  attributes that decide which nodes it takes
    compile    attributes that decide what is made of a partition
    device     facts of the device (fields of DeviceTarget) that decide what is made of a partition
    tools      distributions whose versions decide what is made of a partition; the compile step is compile_<kind>
    examples   whether the partition step runs the program on example inputs
    """

    partition: tuple[str, ...] = ()
    compile: tuple[str, ...] = ()
    device: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    examples: bool = False

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

    def times(self, attributes: Values) -> bool:
        """Whether compiling times kernels, and writes down which were the fastest."""
        return False

    def partition_tools(self, attributes: Values) -> tuple[str, ...]:
        """Distributions that decide which nodes it takes, beside those that every lowering uses."""
        return ()
