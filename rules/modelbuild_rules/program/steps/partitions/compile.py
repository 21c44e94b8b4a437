"""Compiles one partition with its backend: the part of it that all backends share.

Inputs   partition   tree: what program/steps/partition.py keeps of a partition
Params   attributes  what of the backend's table in the stack decides the bytes
Outputs  compiled    tree: processed.bin and named data
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from modelbuild.step import Step
from modelbuild_rules.program.steps.lowering import executorch_private
from modelbuild_rules.program.steps.partitions.compiled import Compiled
from modelbuild_rules.program.steps.partitions.files import read_partition


class Compiler(Protocol):
    """Compiles a partition."""

    def __call__(self, program: Any, specs: Sequence[Any], attributes: Mapping[str, Any]) -> Compiled:
        """Compile a partition (an edge ExportedProgram, to be changed at will) under its compile specs."""


def compile_partition(step: Step, compiler: Compiler) -> None:
    """Run a compile step."""
    executorch_private.require()
    program, specs = read_partition(step.input("partition"))
    compiler(program, specs, step.params["attributes"]).write(step.outputs["compiled"])


def preprocess(backend: Any, program: Any, specs: Sequence[Any], external: bool = True) -> Compiled:
    """Compile a partition with a backend of executorch's, a BackendDetails subclass.

    external  whether its named data may lie outside the program, as weights may and code may not
    """
    result = backend.preprocess(program, list(specs))
    store = result.data_store_output
    entries = store.pte_data.items() if store is not None else ()
    named = tuple((key, store.buffers[e.buffer_index], e.alignment, external, None) for key, e in entries)
    return Compiled(result.processed_bytes, named)
