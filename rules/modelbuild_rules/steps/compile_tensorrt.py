"""Compiles a partition for TensorRT. Inputs, params and outputs are those of every compile step (_compile.py)."""

from __future__ import annotations

from modelbuild.step import Step
from modelbuild_rules.steps import _executorch
from modelbuild_rules.steps._partition_files import read_partition
from modelbuild_rules.steps.backends import tensorrt


def run(step: Step) -> None:
    _executorch.require()
    program, _ = read_partition(step.input("partition"))
    tensorrt.compile(program, step.params["attributes"], step.outputs["compiled"])
