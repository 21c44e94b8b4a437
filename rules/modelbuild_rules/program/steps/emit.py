"""Links a lowered program and its compiled partitions into a .pte, and says what became of each node. Torch-free.

Inputs   residual    tree, report: as program/steps/partition.py writes them
         parts       trees that compile steps write, in the order of `partitions`
Params   partitions  ids of the parts
         beside      module that merges the files of this name that parts have, by the name; they become outputs
Outputs  pte, delegation; ptd where weights lie outside the program; those of `beside`
"""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from modelbuild.step import Step
from modelbuild_rules.program.steps.linking.link import Part, link
from modelbuild_rules.program.steps.linking.named_data import read_named
from modelbuild_rules.program.steps.lowering import executorch_private

_DIGESTED = 1 << 20


def run(step: Step) -> None:
    executorch_private.require()
    folders = step.inputs.get("parts", ())
    parts = {id: Part.read(folder) for id, folder in zip(step.params["partitions"], folders, strict=True)}
    residual = step.input("residual")
    constants = read_named(residual / "constants")
    link(residual / "program.pte", constants, parts, step.outputs["pte"], step.outputs.get("ptd"))
    nodes = json.loads(step.input("report").read_text())
    described = json.dumps(delegation(nodes, parts), indent=1) + "\n"
    Path(step.outputs["delegation"]).write_text(described)
    for name, merging in step.params["beside"].items():
        written = [file.read_text() for folder in folders if (file := folder / name).is_file()]
        step.outputs[name].write_text(importlib.import_module(merging).merged(written))


def delegation(nodes: list[dict[str, Any]], parts: Mapping[str, Part]) -> dict[str, Any]:
    """The contents of delegation.json: totals by backend, partitions with their sizes in bytes, and every node.

    A partition that stands in the program several times is listed once; `nodes` counts those of all its places.
    """
    partitions = []
    for id, part in parts.items():
        inside = [node for node in nodes if node.get("partition") == id]
        partitions.append(
            {
                "id": id,
                "backend": inside[0]["backend"],
                "nodes": len(inside),
                **_processed(part.processed),
                "named_bytes": sum(path.stat().st_size for path in {entry.path for entry in part.named}),
                **({"about": part.about} if part.about else {}),
            }
        )
    totals: dict[str, dict[str, int]] = {}
    for node in nodes:
        total = totals.setdefault(node["backend"], {"nodes": 0, "partitions": 0, "bytes": 0})
        total["nodes"] += 1
    for partition in partitions:
        total = totals[partition["backend"]]
        total["partitions"] += 1
        total["bytes"] += partition["processed_bytes"] + partition["named_bytes"]
    return {"version": 1, "totals": totals, "partitions": partitions, "nodes": nodes}


def _processed(blob: Path) -> dict[str, Any]:
    """By what a delegate's blob is found in a .pte again: its size and, where it is not large, its digest."""
    size = blob.stat().st_size
    digest = {"processed_sha256": hashlib.sha256(blob.read_bytes()).hexdigest()} if size <= _DIGESTED else {}
    return {"processed_bytes": size, **digest}
