"""Gather the plans of a program's methods. Torch-free.

Inputs   plans    plan.json of each method, as program/steps/partition.py writes it
         states   state.json of each method; optional
Params   methods  names of the methods
         modules  the number of each method's module, in the same order; with `states`
Outputs  plan     JSON: [PlannedPartition] of program/documents.py by method
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import permutations
from typing import TYPE_CHECKING

from modelbuild.step import Step, StepError

if TYPE_CHECKING:
    from modelbuild_rules.program.documents import MethodState


def run(step: Step) -> None:
    if "states" in step.inputs:
        states: list[MethodState] = [json.loads(path.read_text()) for path in step.inputs["states"]]
        check_states(step.params["methods"], step.params["modules"], states)
    plans = [json.loads(path.read_text()) for path in step.inputs["plans"]]
    gathered = dict(zip(step.params["methods"], plans, strict=True))
    step.outputs["plan"].write_text(json.dumps(gathered, indent=1) + "\n")


def check_states(methods: Sequence[str], modules: Sequence[int], states: Sequence[MethodState]) -> None:
    """Raise StepError for a buffer of a module that two of its methods cannot share."""
    for (name, module, own), (other, its_module, its) in permutations(zip(methods, modules, states, strict=True), 2):
        if module != its_module:
            continue
        if inside := set(own["inside"]).intersection((*its["changed"], *its["read"])):
            raise StepError(
                f"method '{name}' changes the buffer '{min(inside)}' inside a partition, whose state ExecuTorch keeps"
                f" for this partition alone, and method '{other}' uses it, too; expected a stack that runs the change"
                " outside of partitions, or the state as inputs and outputs"
            )
        for buffer, memory in own["common"].items():
            if (elsewhere := its["common"].get(buffer)) != memory and buffer in its["changed"]:
                where = f"in {elsewhere}" if elsewhere else "outside of such a partition"
                raise StepError(
                    f"method '{name}' changes the buffer '{buffer}' in {memory}, inside a partition, and method"
                    f" '{other}' uses it {where}; expected both in partitions of one backend and device, or the state"
                    " as inputs and outputs"
                )
        if read := set(own["changed"]).intersection(its["read"]):
            raise StepError(
                f"method '{name}' changes the buffer '{min(read)}', and method '{other}' only reads it, as a constant;"
                " expected methods that all change it, or that pass it as inputs and outputs"
            )
