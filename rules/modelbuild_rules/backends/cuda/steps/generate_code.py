"""Generate the code of a partition for the CUDA delegate, without the values of its weights.

Inputs   program  tree: the partition's program, without its weights
         tuning   a tuning file, if the stack names one
Params   attributes  the attributes of the backend's table that decide the bytes
Outputs  code      tree: what link.py needs besides objects and kernels (library/code.py)
         wrapper   the library's C++ source
         requests  tree: for each kernel a folder, named by its key, with `request.json` (kernels/request.py)
         plan      JSON: [PlannedWork] of backends/cuda/documents.py, one for each folder
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from modelbuild.step import Step
from modelbuild_rules.backend_api.steps.compile import input_structure
from modelbuild_rules.backend_api.steps.partition_files import read_changed
from modelbuild_rules.backends.cuda.steps.generate.generate import Generated
from modelbuild_rules.backends.cuda.steps.generate.no_gpu import no_gpu
from modelbuild_rules.backends.cuda.steps.kernel import REQUEST
from modelbuild_rules.backends.cuda.steps.library.code import write_code

if TYPE_CHECKING:
    from modelbuild_rules.backends.cuda.documents import PlannedWork


def run(step: Step) -> None:
    program, specs = input_structure(step)
    with no_gpu():
        made = write_code(
            program,
            specs,
            step.params["attributes"],
            read_changed(step.input("program")),
            next(iter(step.inputs.get("tuning", ())), None),
            step.outputs["code"],
            step.progress,
        )
    step.outputs["wrapper"].write_text(made.source)
    write_requests(made, step.outputs["requests"])
    plan: list[PlannedWork] = [
        {"id": each.request.key, "description": each.request.name}
        for each in {each.request.key: each for each in made.kernels}.values()
    ]
    step.outputs["plan"].write_text(json.dumps(sorted(plan, key=lambda each: each["id"]), indent=1) + "\n")


def write_requests(generated: Generated, folder: Path) -> None:
    """Write the requests of kernels into an existing folder."""
    for each in generated.kernels:
        (folder / each.request.key).mkdir(exist_ok=True)
        (folder / each.request.key / REQUEST).write_text(each.request.text())
