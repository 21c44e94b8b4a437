"""Run a program with the C++ runtime on recorded calls of its module, and compare the outputs with the module's.

Inputs   program.pte, .ptd, .delegation, .signature   the program
         calls.<method>                 tree: calls, as model/steps/calls/recorded.py writes them
         kernels.<name>                 kernel libraries (bundle/steps/runtime/kernels.py)
         lowered.<method>.program, .weights; backend.<method>.<number>.<name>; eager
                                        as in testing/steps/first_wrong_node.py, for a program that is wrong
Params   methods, backends, modules     likewise
         installed                      the module whose folder has the C++ runtime
         arch, gpu, libraries           as in testing/steps/pte_test.py: for a program for the CPU
Outputs  verified                       JSON: Verified of program/documents.py
         notes                          text: facts for the program's author, a line each
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from modelbuild.step import Step, StepError
from modelbuild_rules.method_names import FORWARD
from modelbuild_rules.model.steps.calls.differences import difference, other_choice
from modelbuild_rules.model.steps.calls.files import Calls
from modelbuild_rules.testing.steps.parity.programs import Arrays, Call, description_of, tensor_ports
from modelbuild_rules.testing.steps.parity.runners import ProgramRunner
from modelbuild_runtime.describe import MethodDescription
from modelbuild_runtime.errors import ProgramError

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import Comparison
    from modelbuild_rules.program.documents import Verified, VerifiedMethod


def run(step: Step) -> None:
    runner = ProgramRunner(step, "program")
    if unmet := runner.unmet_requirement():
        raise StepError(f"the program cannot run here: it {unmet}; expected 'verify = false'")
    program = description_of(step, "program")
    methods = {name: _verified(step, runner, name, program.method(name)) for name in step.params["methods"]}
    document: Verified = {"version": 1, "methods": methods}
    step.outputs["verified"].write_text(json.dumps(document, indent=1) + "\n")
    random = [name for name, each in methods.items() if each["random"]]
    notes = [f"{name} draws random numbers, so the program was not compared with its module" for name in random]
    step.outputs["notes"].write_text("".join(f"{note}\n" for note in notes))


def _verified(step: Step, runner: ProgramRunner, method: str, described: MethodDescription) -> VerifiedMethod:
    """Compare a method with its module. Raises StepError for the first call on which they differ."""
    recorded = Calls(step.input(f"calls.{method}"))
    names = recorded.document["calls"]
    ports = [port.name for port in tensor_ports(described)]
    calls = [Call(method, dict(zip(ports, each, strict=True))) for each in recorded.inputs]
    wanted = [dict(zip((port.name for port in described.outputs), each, strict=True)) for each in recorded.outputs]
    step.progress(f"running {method}")
    outputs = _run(step, runner, calls, names) if calls else []
    facts = recorded.document["comparison"]
    if wrong := _first_wrong(outputs, wanted, facts):
        number, name, problem = wrong
        right: list[Arrays] = [
            {each: array for each, array in one.items() if array is not None} for one in wanted[: number + 1]
        ]
        from modelbuild_rules.testing.steps.bisect.verified import explain  # imports torch

        why = explain(step, runner, calls[: number + 1], right, name, facts)
        whose = "" if list(step.params["methods"]) == [FORWARD] else f"{method}: "
        raise StepError(f"{whose}on {names[number]}, the program's output '{name}' {problem}, the module's; {why}")
    return {"calls": list(names), "random": recorded.document["random"]}


def _first_wrong(
    outputs: Sequence[Arrays], wanted: Sequence[Mapping[str, Any]], facts: Comparison
) -> tuple[int, str, str] | None:
    """Return the first wrong call and output, and the difference; None if all are right. A choice is wrong if it
    differs in most calls."""
    others: dict[str, list[tuple[int, str]]] = {}
    for number, (found, expected) in enumerate(zip(outputs, wanted, strict=True)):
        for place, (name, value) in enumerate(expected.items()):
            if value is None:
                continue
            if problem := difference(found[name], value, facts, place):
                return number, name, problem
            if problem := other_choice(found[name], value, facts, place):
                others.setdefault(name, []).append((number, problem))
    for name, problems in others.items():
        if len(problems) > max(1, len(outputs) / 2):
            number, problem = problems[0]
            return number, name, f"{problem}, and other choices in {len(problems)} of {len(outputs)} calls"
    return None


def _run(step: Step, runner: ProgramRunner, calls: Sequence[Call], names: Sequence[str]) -> list[Arrays]:
    """Return the outputs of each call, all made in one process. Raises StepError with the first call that fails."""
    try:
        return runner.run(list(calls))
    except ProgramError as error:
        for number in range(1, len(calls)):
            try:
                runner.run(list(calls[:number]))
            except ProgramError as first:
                raise StepError(f"on {names[number - 1]}, the program fails: {first}") from first
        raise StepError(f"on {names[-1]}, the program fails: {error}") from error
