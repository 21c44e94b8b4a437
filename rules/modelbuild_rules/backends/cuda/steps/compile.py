"""Compile a partition for the CUDA delegate. Inputs, params and outputs are as in every compile step
(backend_api/steps/compile.py), and

Inputs   runtime   tree: the output of backend_api/steps/cpp_runtime.py for the machine
         tuning    a tuning file, if the stack names one
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from modelbuild.step import Step
from modelbuild_rules.backend_api.steps.compile import input_partition
from modelbuild_rules.backend_api.steps.partition_files import read_changed
from modelbuild_rules.backends.cuda.steps.generate.no_gpu import no_gpu
from modelbuild_rules.backends.cuda.steps.library import compiled


def run(step: Step) -> None:
    program, specs = input_partition(step)
    with TemporaryDirectory() as work, no_gpu():
        compiled.compile(
            program,
            specs,
            step.params["attributes"],
            read_changed(step.input("partition")),
            step.input("runtime"),
            Path(work),
            step.outputs["compiled"],
            next(iter(step.inputs.get("tuning", ())), None),
            step.progress,
        )
