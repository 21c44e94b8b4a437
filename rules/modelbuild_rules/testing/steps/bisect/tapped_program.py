"""Write a program with all tensors between partitions as outputs, for a device: the first part of a search there.

Inputs   as in testing/steps/first_wrong_node.py
Params   as in testing/steps/first_wrong_node.py
Outputs  taps   a folder: tapped.pte, and taps.json with each method of the test: its name
               and its inputs' names, by their names in the test
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import modelbuild_runtime
from modelbuild.step import Step
from modelbuild_rules.backend_api.steps import executorch_private
from modelbuild_rules.testing.steps.bisect.search import lower_again, write_tapped
from modelbuild_rules.testing.steps.bisect.taps import tap
from modelbuild_rules.testing.steps.parity.programs import description_of, methods_of, tensor_ports

PROGRAM = "tapped.pte"


def run(step: Step) -> None:
    executorch_private.require()
    methods = methods_of(description_of(step, "program"), step.params["methods"])
    target = step.outputs["taps"]
    target.mkdir(exist_ok=True)
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        lowered = {name: lower_again(step, name, folder) for name in methods}
        for each in lowered.values():
            tap(each.edge.exported_program())
        names = {name: each.name for name, each in methods.items()}
        write_tapped(step, lowered, names, folder).rename(target / PROGRAM)
    data = [step.input("program.ptd")] if "program.ptd" in step.inputs else []
    tapped = modelbuild_runtime.read_description(target / PROGRAM, data)
    found = {}
    for name, method in methods.items():
        own = tapped.method(method.name)
        ports = [[port.name for port in tensor_ports(each)] for each in (method, own)]
        found[name] = {"name": own.name, "inputs": dict(zip(*ports, strict=True))}
    (target / "taps.json").write_text(json.dumps({"methods": found}))
