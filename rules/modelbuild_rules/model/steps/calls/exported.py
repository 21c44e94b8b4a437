"""Compare an exported program with the recorded calls of its module, and write them with facts about the program.

Private names used, checked on torch 2.14.0: torch.SymInt.node (expr). Not patched.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram

from modelbuild.step import StepError
from modelbuild_rules.model.steps.calls.differences import difference
from modelbuild_rules.model.steps.calls.drawn import DrawnCall
from modelbuild_rules.model.steps.calls.facts import comparison
from modelbuild_rules.model.steps.calls.recorded import Recording, buffers, called, record, restore, write
from modelbuild_rules.model.steps.eager.entry import first_line
from modelbuild_rules.model.steps.exported.random_numbers import random_nodes


def check_exported(program: ExportedProgram, recording: Recording, name: str) -> None:
    """Raise StepError if the program differs from its module on a recorded call. Removes calls with sizes that
    torch.export found to be constant from the recording, and all calls of a program that draws random numbers."""
    recording.random = bool(random_nodes(program))
    recording.calls = [] if recording.random else [each for each in recording.calls if _fits(program, each.inputs)]
    facts = comparison(program)
    module = program.module(check_guards=False)
    initial = buffers(module)
    try:
        for call in recording.calls:
            where = f"{name}, on {call.name}"
            try:
                outputs, dtypes = called(lambda inputs: module(*inputs), call.inputs)
            except Exception as error:  # of a check that torch.export added
                raise StepError(f"{where}: {type(error).__name__}: {first_line(error)}") from error
            if dtypes != call.dtypes:
                raise StepError(f"{where} returns {', '.join(dtypes)}; the module returns {', '.join(call.dtypes)}")
            for place, (found, wanted) in enumerate(zip(outputs, call.outputs, strict=True)):
                problem = _different(found, wanted, facts, place)
                if problem:
                    raise StepError(f"{where}: output {place} {problem} as the module returns it")
    finally:
        restore(module, initial)


def repeats(program: ExportedProgram, recording: Recording, again: Recording) -> bool:
    """Return whether a module returned in two recordings the same for the same inputs, as precisely as the program
    must."""
    facts = comparison(program)
    others = {call.name: call for call in again.calls}
    for call in recording.calls:
        other = others.get(call.name)
        if other is None or other.dtypes != call.dtypes:
            return False
        pairs = enumerate(zip(other.outputs, call.outputs, strict=True))
        if any(_different(found, wanted, facts, place) for place, (found, wanted) in pairs):
            return False
    return True


def record_exported(program: ExportedProgram, inputs: Sequence[tuple[str, tuple[Tensor, ...]]]) -> Recording:
    """Return a program's results in eager mode for the inputs of named calls."""
    module = program.module(check_guards=False)
    return record(module, lambda given: module(*given), [DrawnCall(name, [given]) for name, given in inputs])


def write_calls(program: ExportedProgram, recording: Recording, folder: Path) -> None:
    """Write a program's recorded calls."""
    inputs = len(program.graph_signature.user_inputs)
    write(recording, {"inputs": inputs, "comparison": comparison(program)}, folder)


def _different(found: Tensor | None, wanted: Tensor | None, facts: Any, place: int) -> str:
    if found is None or wanted is None:
        return "" if found is wanted else "is None on one side"
    if found.is_complex() or wanted.is_complex():
        found, wanted = torch.view_as_real(found), torch.view_as_real(wanted)
    return difference(found.numpy(), wanted.numpy(), facts, place)


def _fits(program: ExportedProgram, inputs: Sequence[Tensor]) -> bool:
    """Return whether the program accepts the sizes of inputs."""
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    for name, tensor in zip(program.graph_signature.user_inputs, inputs, strict=True):
        for declared, size in zip(values[name].shape, tensor.shape, strict=True):
            if isinstance(declared, torch.SymInt):
                bounds = program.range_constraints.get(declared.node.expr)
                if bounds is not None and not bounds.lower <= size <= bounds.upper:
                    return False
                if declared.node.expr.is_number and int(declared) != size:
                    return False
            elif declared != size:
                return False
    return True
