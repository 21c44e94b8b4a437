"""Check that each operator of an exported program can be lowered with a stack, without lowering it.

Inputs   program, weights   trees, as model/steps/exported/program.py writes them
         eager              Python files that register the operators of kernel libraries; optional
Params   backends           [OfferedBackend], in the order in which they are offered nodes
         kernels            [GivenLibrary] of kernels/documents.py; optional
Outputs  checked            JSON: the number of nodes
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from modelbuild.step import Step
from modelbuild_rules.backend_api.steps import executorch_private
from modelbuild_rules.backend_api.steps.nodes import computing
from modelbuild_rules.backend_api.steps.partitioning import partitioning
from modelbuild_rules.model.steps.exported.program import load_program
from modelbuild_rules.operators.steps import custom
from modelbuild_rules.program.steps.lowering.check import check_operators
from modelbuild_rules.program.steps.lowering.rewrites.empty_cat import correct_cat
from modelbuild_rules.program.steps.lowering.rewrites.nonzero import correct_nonzero
from modelbuild_rules.program.steps.partition import lower

if TYPE_CHECKING:
    from modelbuild_rules.backend_api.documents import OfferedBackend


class _Checked(Exception):
    """Ends a lowering after the check."""


def run(step: Step) -> None:
    executorch_private.require()
    step.progress("reading the program")
    custom.load(step.root, step.params.get("kernels", ()))
    program = load_program(step.input("program"), step.input("weights"))
    entries: Sequence[OfferedBackend] = step.params["backends"]
    backends = {i: backend for i, entry in enumerate(entries) if (backend := partitioning(entry)) is not None}
    nodes = 0

    def check(edge: Any) -> None:
        nonlocal nodes
        check_operators(edge, entries, backends)
        nodes = sum(1 for _ in computing(edge.graph_module))
        raise _Checked

    with TemporaryDirectory() as folder:
        try:
            lower(correct_nonzero(correct_cat(program)), entries, backends, Path(folder), step.progress, check)
        except _Checked:
            step.outputs["checked"].write_text(json.dumps({"version": 1, "nodes": nodes}) + "\n")
