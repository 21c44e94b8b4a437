"""Check that each operator of an exported program can be lowered with a stack, without lowering it.

Inputs   program, weights   trees, as model/steps/exported/program.py writes them
         eager              Python files that register the operators of kernel libraries; optional
Params   backends           [OfferedBackend], in the order in which they are offered nodes
         kernels            [GivenLibrary] of kernels/documents.py; optional
Outputs  checked            JSON: the number of nodes
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from modelbuild.step import Step
from modelbuild_rules.backend_api.steps.composite_operators import composite_operators_found_once
from modelbuild_rules.program.steps.partition import begin


@composite_operators_found_once()
def run(step: Step) -> None:
    with TemporaryDirectory() as folder:
        _, lowering = begin(step, Path(folder))
        lowering.check()
    step.outputs["checked"].write_text(json.dumps({"version": 1, "nodes": lowering.nodes}) + "\n")
