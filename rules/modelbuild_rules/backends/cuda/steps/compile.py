"""Compile a partition for the CUDA delegate, without the values of its weights.

Inputs   program   tree: the partition's program, without its weights
         runtime   tree: the output of backend_api/steps/cpp_runtime.py for the machine
         tuning    a tuning file, if the stack names one
Params   attributes  the attributes of the backend's table that decide the bytes
Outputs  code      tree: as backends/cuda/steps/storing.py reads it
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from modelbuild.step import Step
from modelbuild_rules.backend_api.steps.compile import input_structure
from modelbuild_rules.backend_api.steps.partition_files import read_changed
from modelbuild_rules.backends.cuda.steps.generate.no_gpu import no_gpu
from modelbuild_rules.backends.cuda.steps.library import compiled


def run(step: Step) -> None:
    program, specs = input_structure(step)
    with TemporaryDirectory() as work, no_gpu():
        compiled.compile(
            program,
            specs,
            step.params["attributes"],
            read_changed(step.input("program")),
            step.input("runtime"),
            Path(work),
            step.outputs["code"],
            next(iter(step.inputs.get("tuning", ())), None),
            step.progress,
        )
