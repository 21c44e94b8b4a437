"""Compile a partition for the CUDA delegate. Inputs, params and outputs are those of every compile step
(program/steps/partitions/compile.py), and

Inputs   runtime   tree: the output of cpp/steps/cpp_runtime.py for the machine
         tuning    a tuning file, if the stack names one
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from modelbuild.step import Step
from modelbuild_rules.backends.cuda.steps.generate.no_gpu import no_gpu
from modelbuild_rules.backends.cuda.steps.library import compiled
from modelbuild_rules.program.steps.lowering import executorch_private
from modelbuild_rules.program.steps.partitions.files import read_changed, read_partition


def run(step: Step) -> None:
    executorch_private.require()
    program, specs = read_partition(step.input("partition"))
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
