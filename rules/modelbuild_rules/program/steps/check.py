"""Check that each operator of an exported program can be lowered with a stack, and find the backend of each node.

Inputs   program, weights   trees, as model/steps/exported/program.py writes them
         debug              JSON: Debug of model/documents.py
         eager              Python files that register the operators of kernel libraries; optional
Params   backends           [OfferedBackend], in the order in which they are offered nodes
         kernels            [GivenLibrary] of kernels/documents.py; optional
Outputs  checked            JSON: Checked of program/documents.py
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from modelbuild.step import Step
from modelbuild_rules.backend_api.steps.composite_operators import composite_operators_found_once
from modelbuild_rules.program.steps.lowering.breaks import breaks
from modelbuild_rules.program.steps.lowering.delegation import Fact
from modelbuild_rules.program.steps.partition import begin

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import Debug
    from modelbuild_rules.program.documents import Break, Checked, RefusedNodes


@composite_operators_found_once()
def run(step: Step) -> None:
    with TemporaryDirectory() as folder:
        _, lowering = begin(step, Path(folder))
        facts = lowering.check()
        places: Debug = json.loads(step.input("debug").read_bytes())
        advice = {op: text for each in lowering.stack.backends for op, text in each.partitioning.advice.items()}
        document = checked(facts, breaks(lowering.edge.exported_program(), facts, places, advice))
    step.outputs["checked"].write_text(json.dumps(document) + "\n")


def checked(facts: Sequence[Fact], breaks: list[Break]) -> Checked:
    """Return the number of nodes by backend, the nodes that a backend refused by operator, and the breaks."""
    backends: dict[str | None, list[Fact]] = {}
    refused: dict[tuple[str, str | None, str], RefusedNodes] = {}
    for fact in facts:
        backends.setdefault(fact.backend, []).append(fact)
        if fact.refused:
            key = fact.op, fact.backend, json.dumps(fact.refused)
            entry: RefusedNodes = {"op": fact.op, "nodes": 0, "backend": fact.backend, "refused": fact.refused}
            refused.setdefault(key, entry)["nodes"] += 1
    return {
        "version": 2,
        "nodes": len(facts),
        "backends": [
            {"backend": backend, "nodes": len(taken), "partitions": len({fact.tag for fact in taken if fact.tag})}
            for backend, taken in backends.items()
        ],
        "refused": sorted(refused.values(), key=lambda each: -each["nodes"]),
        "breaks": breaks,
    }
