"""Give a program that was lowered without the values of its weights these values, and compare it with the model. If it
needs the values to be lowered, lower it with them.

Inputs   structure   tree: as program/steps/partition.py writes it
         program, weights, calls, eager; params; outputs   as of that step with weights
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from modelbuild.step import Step
from modelbuild_rules.model.steps.calls.recorded import first_inputs
from modelbuild_rules.model.steps.exported.program import load_program
from modelbuild_rules.operators.steps import custom
from modelbuild_rules.program.steps import partition
from modelbuild_rules.program.steps.lowering.agreement import check_agreement, input_types
from modelbuild_rules.program.steps.lowering.stack import StackBackend
from modelbuild_rules.program.steps.values import Values

if TYPE_CHECKING:
    from modelbuild_rules.program.documents import PlannedPartition


def run(step: Step) -> None:
    structure, weights = step.input("structure"), step.input("weights")
    needed = structure / partition.NEEDS_VALUES
    if needed.exists():
        partition.run(step)
        with step.outputs["notes"].open("a") as notes:
            notes.write(f"other weights repeat the whole lowering: {needed.read_text()}\n")
        return
    for name, output in step.outputs.items():
        if (structure / name).is_file():
            shutil.copyfile(structure / name, output)
        elif (structure / name).exists():  # without partitions, their folder is empty, and not in the tree
            shutil.copytree(structure / name, output, dirs_exist_ok=True, copy_function=shutil.copyfile)
    values = Values(structure, step.input("program"), weights)
    values.fill_residual(step.outputs[partition.RESIDUAL], partition.RESIDUAL)
    values.fill_tensors(step.outputs[partition.PARTITIONS])
    _measure(step.outputs["plan"], step.outputs["partitions"])
    if "calls" in step.inputs:
        _compare(step, structure / partition.LOWERED, values)


def _measure(plan: Path, partitions: Path) -> None:
    """Set the sizes of partitions in a plan."""
    planned: list[PlannedPartition] = json.loads(plan.read_text())
    for each in planned:
        files = (path for path in (partitions / each["id"]).rglob("*") if path.is_file())
        each["bytes"] = sum(path.stat().st_size for path in files)
    plan.write_text(json.dumps(planned, indent=1) + "\n")


def _compare(step: Step, lowered: Path, values: Values) -> None:
    """Raise StepError if the lowered program computes other results than the model on its first call."""
    custom.load(step.root, step.params.get("kernels", ()))
    program = load_program(step.input("program"), step.input("weights"))
    inputs = first_inputs(step.input("calls"), input_types(program))
    if inputs is None:
        return
    step.progress("comparing with the model")
    with TemporaryDirectory() as folder:
        filled = Path(folder) / "lowered"
        shutil.copytree(lowered, filled)
        values.fill_tensors(filled)
        check_agreement(program, load_program(filled, filled), _no_backend, inputs)


def _no_backend(partition: str) -> StackBackend:
    raise AssertionError(f"the partition {partition} is not part of one graph")
