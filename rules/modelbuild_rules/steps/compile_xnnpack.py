"""Compiles a partition for XNNPACK."""

from __future__ import annotations

from modelbuild.step import Step
from modelbuild_rules.steps._compile import compile_partition
from modelbuild_rules.steps.backends import xnnpack


def run(step: Step) -> None:
    compile_partition(step, xnnpack)
