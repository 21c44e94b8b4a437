"""List the products of a partition for which a kernel is chosen by cost.

Inputs   program  tree: the partition's program, without its weights
         tuning   a tuning file, if the stack names one
Params   attributes  the attributes of the backend's table that decide the bytes
Outputs  choices  tree: for each choice a folder, named by its key, with `choice.json` (kernels/product_choice.py)
         plan     JSON: [PlannedWork] of backends/cuda/documents.py, one for each folder
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from modelbuild.step import Step
from modelbuild_rules.backend_api.steps.compile import input_structure
from modelbuild_rules.backends.cuda.steps.choose import CHOICE
from modelbuild_rules.backends.cuda.steps.generate.generate import list_choices
from modelbuild_rules.backends.cuda.steps.generate.no_gpu import no_gpu
from modelbuild_rules.backends.cuda.steps.library.code import read_tuning

if TYPE_CHECKING:
    from modelbuild_rules.backends.cuda.documents import PlannedWork


def run(step: Step) -> None:
    program, specs = input_structure(step)
    attributes = step.params["attributes"]
    tuning = read_tuning(next(iter(step.inputs.get("tuning", ())), None), attributes)
    with no_gpu():
        choices = list_choices(
            program, specs, attributes["capabilities"], attributes["precision"], tuning, step.progress
        )
    plan: list[PlannedWork] = []
    for each in choices:
        folder = step.outputs["choices"] / each.key
        folder.mkdir()
        (folder / CHOICE).write_text(each.text())
        plan.append({"id": each.key, "description": f"{each.operator}:{each.product.describe()}"})
    step.outputs["plan"].write_text(json.dumps(plan, indent=1) + "\n")
