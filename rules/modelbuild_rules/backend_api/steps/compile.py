"""The common part of compile steps.

Inputs   partition   tree: a partition that program/steps/partition.py wrote
Params   attributes  the attributes of the backend's table that decide the bytes
Outputs  compiled    tree: processed.bin and named data
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from executorch.exir.backend.compile_spec_schema import CompileSpec

from modelbuild.step import Step, StepError
from modelbuild_rules.backend_api.steps import executorch_private
from modelbuild_rules.backend_api.steps.compiled import Compiled
from modelbuild_rules.backend_api.steps.failure import library_failures
from modelbuild_rules.backend_api.steps.named_data import NamedBytes
from modelbuild_rules.backend_api.steps.partition_files import read_partition, read_structure
from modelbuild_rules.backend_api.steps.storing import write_code, write_needed
from modelbuild_rules.model.steps.exported.program import fake_weights
from modelbuild_rules.model.steps.exported.sources import known_sources


class Compiler(Protocol):
    """Compiles a partition."""

    def __call__(self, program: Any, specs: Sequence[Any], attributes: Mapping[str, Any]) -> Compiled:
        """Compile a partition (an edge ExportedProgram, which may be changed) with its compile specs."""


def input_partition(step: Step) -> tuple[Any, list[CompileSpec]]:
    """Return a compile step's partition, an edge ExportedProgram, and its compile specs. Raises StepError unless the
    checked version of executorch is installed."""
    executorch_private.require()
    step.progress("reading the partition")
    return read_partition(step.input("partition"))


def input_structure(step: Step) -> tuple[Any, list[CompileSpec]]:
    """Return the partition and compile specs of a compile step that gets no values of weights: weights are on the
    device `meta`."""
    executorch_private.require()
    step.progress("reading the partition")
    return read_structure(step.input("program"))


def compile_structure(step: Step, compiler: Compiler) -> None:
    """Run a compile step that gets no values of weights. If it fails, the storing step compiles the partition with
    values, or fails with the reason."""
    program, specs = input_structure(step)
    attributes, folder = step.params["attributes"], step.outputs["code"]
    try:
        sources = fake_weights(program, {name: name for name in (*program.state_dict, *program.constants)}, {})
        with known_sources(sources):
            made = compiler(program, specs, attributes)
        write_code(made, sources, folder)
    except (MemoryError, OSError):
        raise
    except Exception as error:
        lines = str(error).splitlines() or [type(error).__name__]
        write_needed(lines[0], attributes, folder)


def compile_partition(step: Step, compiler: Compiler) -> None:
    """Run a compile step."""
    program, specs = input_partition(step)
    with library_failures(program, "compile"):
        made = compiler(program, specs, step.params["attributes"])
    if not isinstance(made, Compiled):
        raise StepError(f"the compiler returned {type(made).__name__}; expected a Compiled of {Compiled.__module__}")
    made.write(step.outputs["compiled"])


def preprocess(backend: Any, program: Any, specs: Sequence[Any], external: bool = True) -> Compiled:
    """Compile a partition with executorch's backend class, a BackendDetails subclass.

    external  true if its named data may be outside the program, like weights, unlike code
    """
    result = backend.preprocess(program, list(specs))
    store = result.data_store_output
    entries = store.pte_data.items() if store is not None else ()
    named = tuple(NamedBytes(key, store.buffers[e.buffer_index], e.alignment, external) for key, e in entries)
    return Compiled(result.processed_bytes, named)
