"""Write a program with all tensors between partitions as outputs, for a device: the first part of a search there.

Inputs   those of testing/steps/first_wrong_node.py
Params   those of testing/steps/first_wrong_node.py
Outputs  taps   a folder: tapped.pte, and taps.json with the program's names of its inputs by their names in the test
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import modelbuild_runtime
from modelbuild.step import Step
from modelbuild_rules.program.steps.lowering import executorch_private
from modelbuild_rules.testing.steps.bisect.search import Lowered
from modelbuild_rules.testing.steps.bisect.taps import tap
from modelbuild_rules.testing.steps.parity.programs import method_of, open_program

PROGRAM = "tapped.pte"


def run(step: Step) -> None:
    executorch_private.require()
    method = method_of(step, open_program(step, "program"))
    target = step.outputs["taps"]
    target.mkdir(exist_ok=True)
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        lowered = Lowered.again(step, folder)
        tap(lowered.edge.exported_program())
        lowered.tapped(step.input("program.pte"), method.name, folder).rename(target / PROGRAM)
    data = [step.input("program.ptd")] if "program.ptd" in step.inputs else []
    tapped = modelbuild_runtime.load_with_executorch(target / PROGRAM, data).describe().methods[0]
    ports = [[port.name for port in each.inputs if port.kind == "tensor"] for each in (method, tapped)]
    (target / "taps.json").write_text(json.dumps({"inputs": dict(zip(*ports, strict=True))}))
