"""Gather the plans of a program's methods. Torch-free.

Inputs   plans    plan.json of each method, as program/steps/partition.py writes it
Params   methods  names of the methods
Outputs  plan     JSON: [PlannedPartition] of program/documents.py by method
"""

from __future__ import annotations

import json

from modelbuild.step import Step


def run(step: Step) -> None:
    plans = [json.loads(path.read_text()) for path in step.inputs["plans"]]
    gathered = dict(zip(step.params["methods"], plans, strict=True))
    step.outputs["plan"].write_text(json.dumps(gathered, indent=1) + "\n")
