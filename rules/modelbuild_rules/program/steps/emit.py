"""Link a lowered program and its compiled partitions into a .pte, and write each node's delegation. Torch-free.

Inputs   residual    tree; report: as program/steps/partition.py writes them
         parts       trees of compile steps, in the order of `partitions`
         signature   JSON, as the export step writes it, for the manifest; optional
Params   partitions  ids of the parts
         device      facts of the device, for the manifest; optional
         sidecars    file name -> module that merges the parts' files of this name into an output
Outputs  pte, delegation; ptd if weights are outside the program; those of `sidecars`
"""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from modelbuild.step import Step
from modelbuild_rules.program.steps.linking.link import Part, link
from modelbuild_rules.program.steps.linking.named_data import read_named
from modelbuild_rules.program.steps.lowering import executorch_private

if TYPE_CHECKING:
    from modelbuild_rules.program.documents import (
        BackendTotal,
        CompiledPartition,
        DelegationDocument,
        Manifest,
        ManifestPart,
        NodeDelegation,
        PartitionAbout,
        ProcessedBlob,
    )

_DIGESTED = 1 << 20


def run(step: Step) -> None:
    executorch_private.require()
    folders = step.inputs.get("parts", ())
    parts = {id: Part.read(folder) for id, folder in zip(step.params["partitions"], folders, strict=True)}
    residual = step.input("residual")
    constants = read_named(residual / "constants")
    nodes: list[NodeDelegation] = json.loads(step.input("report").read_text())
    delegated = delegation(nodes, parts)
    made = manifest(step, delegated["partitions"], parts)
    link(residual / "program.pte", constants, parts, step.outputs["pte"], step.outputs.get("ptd"), made)
    Path(step.outputs["delegation"]).write_text(json.dumps(delegated, indent=1) + "\n")
    for name, merging in step.params["sidecars"].items():
        written = [file.read_text() for folder in folders if (file := folder / name).is_file()]
        step.outputs[name].write_text(importlib.import_module(merging).merged(written))


def manifest(step: Step, partitions: Sequence[CompiledPartition], parts: Mapping[str, Part]) -> Manifest:
    """Return the .pte's manifest. `partitions`: those of delegation.json."""
    versions = step.input("residual") / "versions.json"
    kernels = step.input("residual") / "kernels.json"
    made: Manifest = {
        "version": 1,
        "signature": json.loads(step.input("signature").read_text()) if "signature" in step.inputs else None,
        "device": step.params.get("device"),
        "versions": json.loads(versions.read_text()) if versions.is_file() else {},
        "parts": [_manifest_part(each, parts[each["id"]]) for each in partitions],
    }
    if kernels.is_file():
        made["kernels"] = json.loads(kernels.read_text())
    return made


def _manifest_part(partition: CompiledPartition, part: Part) -> ManifestPart:
    found: ManifestPart = {
        "id": partition["id"],
        "backend": partition["backend"],
        "bytes": partition["processed_bytes"],
        "sha256": partition.get("processed_sha256") or _sha256(part.processed),
    }
    if part.about and "requires" in part.about:
        found["requires"] = part.about["requires"]
    return found


def delegation(nodes: Sequence[NodeDelegation], parts: Mapping[str, Part]) -> DelegationDocument:
    """Return delegation.json: totals by backend, partitions with their sizes in bytes, and all nodes.

    A partition that occurs several times in the program is listed once; its `nodes` counts all occurrences.
    """
    partitions: list[CompiledPartition] = []
    for id, part in parts.items():
        inside = [node for node in nodes if node.get("partition") == id]
        about: PartitionAbout = {"about": part.about} if part.about else {}
        partitions.append(
            {
                "id": id,
                "backend": inside[0]["backend"],
                "nodes": len(inside),
                **_processed(part.processed),
                "named_bytes": sum(path.stat().st_size for path in {entry.path for entry in part.named}),
                **about,
            }
        )
    totals: dict[str | None, BackendTotal] = {}
    for node in nodes:
        total = totals.setdefault(node["backend"], {"nodes": 0, "partitions": 0, "bytes": 0})
        total["nodes"] += 1
    for partition in partitions:
        total = totals[partition["backend"]]
        total["partitions"] += 1
        total["bytes"] += partition["processed_bytes"] + partition["named_bytes"]
    return {"version": 1, "totals": totals, "partitions": partitions, "nodes": nodes}


def _processed(blob: Path) -> ProcessedBlob:
    """Return the facts that identify a delegate's blob: its size and, unless it is large, its digest."""
    found: ProcessedBlob = {"processed_bytes": blob.stat().st_size}
    if found["processed_bytes"] <= _DIGESTED:
        found["processed_sha256"] = _sha256(blob)
    return found


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
