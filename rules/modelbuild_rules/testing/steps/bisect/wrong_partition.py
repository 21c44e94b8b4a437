"""Find the first wrong tensor between partitions from a tapped program's outputs on a device. If a partition made the
tensor, compile the partition again with its nodes' results as outputs, and write the command that runs it on the
device.

Inputs   as in testing/steps/first_wrong_node.py
         cases, plan   folders of testing/steps/device_cases.py and tap_commands.py
         device        device.json, and in `out` a folder for the command: see modelbuild.api.DeviceJob
Params   as in testing/steps/first_wrong_node.py
Outputs  wrong  a folder: commands.json, and either finding.json, or case.json (arguments of Finding.of_case),
                program.pte, its inputs, and the files of Nodes.save()
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import modelbuild_runtime
from modelbuild.step import Step
from modelbuild_rules.backend_api.steps import executorch_private
from modelbuild_rules.testing.steps.bisect.finding import FINDING, Finding
from modelbuild_rules.testing.steps.bisect.search import Failed, Inside, Search
from modelbuild_rules.testing.steps.bisect.tap_commands import COMMAND, RUNNER
from modelbuild_rules.testing.steps.parity.device_report import DeviceReport
from modelbuild_rules.testing.steps.parity.device_results import saved_plan
from modelbuild_rules.testing.steps.parity.eager import Eager
from modelbuild_rules.testing.steps.parity.parity import output_types, tolerance_of, wrong_metrics, wrong_outputs
from modelbuild_rules.testing.steps.parity.programs import description_of
from modelbuild_runtime.errors import ProgramError


def run(step: Step) -> None:
    executorch_private.require()
    folder = step.outputs["wrong"]
    folder.mkdir(exist_ok=True)
    (folder / "commands.json").write_text("[]")
    with TemporaryDirectory() as temporary:
        finding = _find(step, Path(temporary), folder)
    if finding is not None:
        finding.write(folder / FINDING)


def _find(step: Step, temporary: Path, target: Path) -> Finding | None:
    """Return the finding; None after writing a partition to search."""
    index = json.loads((step.input("plan") / "case.json").read_bytes())
    if index is None:
        return Finding("parity holds in every case")
    report = DeviceReport.read(step.input("device"))
    if report.document["unmet"]:
        return Finding(f"not searched: {report.document['unmet']}")
    case = json.loads((step.input("cases") / "cases.json").read_bytes())[index]
    program = description_of(step, "program")
    calls, results = Eager(step, program).run(saved_plan(step, program, case))
    try:
        given = [list(each.values()) for each in report.outputs(COMMAND, len(calls))]
    except ProgramError as error:
        return Finding(f"not searched: with all tensors as outputs, the program {error}")
    types = output_types(step, program)
    for number, (call, values, expected) in enumerate(zip(calls, given, results, strict=True), 1):
        found = dict(zip(expected, values, strict=False))
        if found.keys() != expected.keys():
            return Finding("not searched: the device returned too few outputs")
        dtypes = types[call.method]
        wrong = wrong_outputs(step, found, expected, dtypes)
        if not wrong and not wrong_metrics(step, found, expected):
            continue
        output = next(iter(wrong), next(iter(dtypes)))
        failed = Failed(calls[:number], results[:number], tolerance_of(step, output, dtypes[output]))
        search = Search(step, program, temporary)
        for one, outputs in zip(calls[:number], given, strict=False):
            if len(outputs) != (wanted := len(search.names(one.method))):
                return Finding(f"not searched: the device returned {len(outputs)} outputs; expected {wanted}")
        verdict, at = search.judge(failed, given[:number])
        place = {"name": case["name"], "call": at, "calls": len(calls)}
        place |= {"method": calls[at - 1].method} if len(step.params["methods"]) > 1 else {}
        if isinstance(verdict, Finding):
            return verdict.of_case(**place)
        _write(verdict, target)
        (target / "case.json").write_text(json.dumps(place))
        return None
    message = (
        "lowered and linked again with the same delegates, the program is right on the device; the tested one is not"
    )
    return Finding(f"case {case['name']}: {message}")


def _write(inside: Inside, folder: Path) -> None:
    """Write a partition's program with its inputs, and the command that runs it."""
    path = folder / "program.pte"
    path.write_bytes(inside.program.read_bytes())
    inside.nodes.save(folder)
    ports = modelbuild_runtime.read_description(path).methods[0].inputs
    argv = [RUNNER, "wrong/program.pte"]
    for number, (port, array) in enumerate(zip(ports, inside.inputs, strict=True)):
        np.save(folder / f"input{number}.npy", array)
        argv.append(f"--input={port.name}=wrong/input{number}.npy")
    commands = [{"name": "nodes", "argv": [*argv, "--output-dir=out/nodes", "--json"]}]
    (folder / "commands.json").write_text(json.dumps(commands))
