"""Compiles a partition for the CUDA delegate. Inputs, params and outputs are those of every compile step (_compile.py).

Inputs   runtime   tree: what steps/cpp_runtime.py makes for the machine
         tuning    a tuning file, where the stack names one
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from modelbuild.step import Step
from modelbuild_rules.steps import _executorch
from modelbuild_rules.steps._no_gpu import no_gpu
from modelbuild_rules.steps._partition_files import read_partition
from modelbuild_rules.steps.backends import cuda


def run(step: Step) -> None:
    _executorch.require()
    program, specs = read_partition(step.input("partition"))
    with TemporaryDirectory() as work, no_gpu():
        cuda.compile(
            program,
            specs,
            step.params["attributes"],
            step.input("runtime"),
            Path(work),
            step.outputs["compiled"],
            next(iter(step.inputs.get("tuning", ())), None),
        )
