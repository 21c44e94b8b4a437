"""The common part of all backends' compile steps, which compile one partition.

Inputs   partition   tree: a partition that program/steps/partition.py wrote
Params   attributes  the attributes of the backend's table that decide the bytes
Outputs  compiled    tree: processed.bin and named data
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from modelbuild.step import Step
from modelbuild_rules.program.steps.linking.named_data import NamedBytes
from modelbuild_rules.program.steps.lowering import executorch_private
from modelbuild_rules.program.steps.lowering.failure import library_failures
from modelbuild_rules.program.steps.partitions.compiled import Compiled
from modelbuild_rules.program.steps.partitions.files import read_partition


class Compiler(Protocol):
    """Compiles a partition."""

    def __call__(self, program: Any, specs: Sequence[Any], attributes: Mapping[str, Any]) -> Compiled:
        """Compile a partition (an edge ExportedProgram, which may be changed) with its compile specs."""


def compile_partition(step: Step, compiler: Compiler) -> None:
    """Run a compile step."""
    executorch_private.require()
    step.progress("reading the partition")
    program, specs = read_partition(step.input("partition"))
    with library_failures(program, "compile"):
        made = compiler(program, specs, step.params["attributes"])
    made.write(step.outputs["compiled"])


def preprocess(backend: Any, program: Any, specs: Sequence[Any], external: bool = True) -> Compiled:
    """Compile a partition with executorch's backend class, a BackendDetails subclass.

    external  true if its named data may be outside the program, as weights may and code may not
    """
    result = backend.preprocess(program, list(specs))
    store = result.data_store_output
    entries = store.pte_data.items() if store is not None else ()
    named = tuple(NamedBytes(key, store.buffers[e.buffer_index], e.alignment, external) for key, e in entries)
    return Compiled(result.processed_bytes, named)
