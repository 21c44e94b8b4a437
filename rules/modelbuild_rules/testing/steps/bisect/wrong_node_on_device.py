"""Find the first wrong node of a partition from the partition's outputs on a device.

Inputs   wrong    the folder that wrong_partition.py wrote
         device   device.json, and in `out` a folder for the command, if there was one
Outputs  finding  JSON: version, message, place (`file:line` or '')
"""

from __future__ import annotations

import json

from modelbuild.step import Step
from modelbuild_rules.testing.steps.bisect.finding import FINDING, Finding, Nodes
from modelbuild_rules.testing.steps.parity.device_report import DeviceReport
from modelbuild_runtime.errors import ProgramError


def run(step: Step) -> None:
    folder, target = step.input("wrong"), step.outputs["finding"]
    known = folder / FINDING
    if known.exists():
        target.write_bytes(known.read_bytes())
        return
    case = json.loads((folder / "case.json").read_bytes())
    _judged(Nodes.load(folder), DeviceReport.read(step.input("device"))).of_case(**case).write(target)


def _judged(nodes: Nodes, report: DeviceReport) -> Finding:
    if report.document["unmet"]:
        return nodes.at.with_reason(f"its nodes were not checked: {report.document['unmet']}")
    try:
        given = list(report.outputs("nodes", 1)[0].values())
    except ProgramError as error:
        return nodes.at.with_reason(f"its nodes' results cannot be read: {error}")
    if len(given) != len(nodes.nodes):
        return nodes.at.with_reason(f"the device returned {len(given)} results; expected {len(nodes.nodes)}")
    return nodes.judge(given)
