"""Compiles one partition with its backend: what every `compile_<backend>` step does.

Inputs   partition   tree: what steps/partition.py keeps of a partition
Params   attributes  what of the backend's table in the stack decides the bytes
Outputs  compiled    tree: processed.bin and named data
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from modelbuild.step import Step
from modelbuild_rules.steps import _executorch
from modelbuild_rules.steps._compiled import Compiled
from modelbuild_rules.steps._partition_files import read_partition


class Compiler(Protocol):
    """The half of a backend's module that compiles."""

    def compile(self, program: Any, specs: Sequence[Any], attributes: Mapping[str, Any]) -> Compiled:
        """Compile a partition (an edge ExportedProgram, to be changed at will) under its compile specs."""


def compile_partition(step: Step, backend: Compiler) -> None:
    """Run a compile step."""
    _executorch.require()
    program, specs = read_partition(step.input("partition"))
    backend.compile(program, specs, step.params["attributes"]).write(step.outputs["compiled"])
