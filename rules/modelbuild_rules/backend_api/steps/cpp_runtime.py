"""Build the runtime that C++ libraries for a kind of machine are linked with.

Params   target    as "x86_64-linux-gnu.2.28"
Outputs  runtime   tree: see backend_api/steps/cpp_compiler.py (make_runtime)
"""

from __future__ import annotations

from modelbuild.step import Step
from modelbuild_rules.backend_api.steps.cpp_compiler import make_runtime


def run(step: Step) -> None:
    make_runtime(step.params["target"], step.outputs["runtime"])
