"""Compute what a quantized program returns, in eager mode, on the recorded calls of the model in floating point.

Inputs   program, weights   trees of the quantized program, as model/steps/exported/program.py writes them
         calls              tree: calls of the model, as model/steps/calls/recorded.py writes them
Outputs  calls              tree, likewise
"""

from __future__ import annotations

import torch

from modelbuild.step import Step, StepError
from modelbuild_rules.model.steps.calls.exported import record_exported, write_calls
from modelbuild_rules.model.steps.calls.files import Calls
from modelbuild_rules.model.steps.eager.entry import first_line
from modelbuild_rules.model.steps.exported.program import load_program


def run(step: Step) -> None:
    program = load_program(step.input("program"), step.input("weights"))
    given = Calls(step.input("calls"))
    values = {node.name: node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"}
    dtypes = [values[name].dtype for name in program.graph_signature.user_inputs]
    inputs = [
        (name, tuple(torch.from_numpy(array).to(dtype) for array, dtype in zip(arrays, dtypes, strict=True)))
        for name, arrays in zip(given.document["calls"], given.inputs, strict=True)
    ]
    step.progress("running the program")
    recording = record_exported(program, inputs)
    recording.random = given.document["random"]
    if inputs and not recording.calls and recording.failure is not None:
        raise StepError(f"the quantized program fails in eager mode: {first_line(recording.failure)}")
    write_calls(program, recording, step.outputs["calls"])
