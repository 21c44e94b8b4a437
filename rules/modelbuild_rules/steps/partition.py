"""Lowers an exported program with the backends of a stack; what they take is kept as partitions, not compiled.

Inputs   program, weights   trees, as steps/_program.py writes them
Params   backends           [{kind, attributes}], in the order in which they are offered nodes
         external_weights   whether the program's own constants lie outside the .pte
Outputs  residual           tree: program.pte, whose delegates are placeholders, and constants that lie outside it
         partitions         tree: p0/, p1/, ... each a program of its own (program/, weights/) with partition.json
         plan               JSON: [{id, entry, kind, nodes, bytes}] of the partitions
         report             JSON: what became of each node
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge_transform_and_lower

from modelbuild.step import Step
from modelbuild_rules.steps import _executorch
from modelbuild_rules.steps._backends import partitioning
from modelbuild_rules.steps._capture import captured
from modelbuild_rules.steps._constants import CONSTANTS, initialize_buffers, outside, write_constants
from modelbuild_rules.steps._delegation import Delegation, Recorded
from modelbuild_rules.steps._nonzero import correct_nonzero
from modelbuild_rules.steps._partitions import Partitions
from modelbuild_rules.steps._portable import check_allowed, check_dtypes, to_executorch
from modelbuild_rules.steps._program import load_program


def run(step: Step) -> None:
    _executorch.require()
    program = correct_nonzero(load_program(step.input("program"), step.input("weights")))
    entries = step.params["backends"]
    backends = {i: partitioning(entry["kind"]) for i, entry in enumerate(entries) if entry["kind"] != "portable"}
    delegation = Delegation()
    partitions = Partitions(step.outputs["partitions"], delegation, {i: b.ANNOTATIONS for i, b in backends.items()})
    for backend in backends.values():
        backend.prepare(program)
    partitioners = [Recorded(i, entries[i], backend, delegation) for i, backend in backends.items()]
    with captured({id for backend in backends.values() for id in backend.IDS}, partitions.keep):
        # What each operator may be is checked below, for those that no backend takes.
        config = EdgeCompileConfig(_check_ir_validity=False)
        passes = [each for backend in backends.values() for each in backend.PASSES]
        edge = to_edge_transform_and_lower(program, passes or None, partitioners, compile_config=config)
    if not backends:
        delegation.see(edge.exported_program())
    portable = next((entry for entry in entries if entry["kind"] == "portable"), None)
    facts = delegation.finish("portable" if portable else None)
    check_allowed(facts, portable and portable["attributes"]["ops"], portable is not None)
    check_dtypes(edge.exported_program().graph_module, facts)
    initialize_buffers(edge.exported_program())
    external = bool(step.params["external_weights"])
    lowered = to_executorch(edge, ExecutorchBackendConfig(external_constants=outside if external else False), facts)
    _write_residual(lowered, step.outputs["residual"])
    _write_json(step.outputs["plan"], partitions.plan(entries))
    _write_json(step.outputs["report"], [fact.described() for fact in facts])


def _write_residual(lowered: Any, folder: Path) -> None:
    with (folder / "program.pte").open("wb") as file:
        lowered.write_to_file(file)
    (folder / CONSTANTS).mkdir()
    write_constants(lowered, folder / CONSTANTS)


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n")
