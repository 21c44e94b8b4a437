"""Link lowered programs and their compiled partitions into a .pte, and write each node's delegation. Torch-free.

Inputs   residual    trees; report: JSON, as program/steps/partition.py writes them, for each method
         parts       trees of compile steps, in the order of `partitions`
         signature   JSON, as the export step writes it, for each method; without it, inputs have no names
Params   partitions  ids of each method's parts in its residual, by the method's name
         modules     the number of each method's module; methods of one module share their state; optional
         device      facts of the device, for the manifest; optional
         sidecars    file name -> module that merges the parts' files of this name into an output
Outputs  pte, delegation; signature, if it is given; ptd if weights are outside the program; the outputs in `sidecars`
"""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from modelbuild.step import Step
from modelbuild_rules.backend_api.steps.named_data import read_named
from modelbuild_rules.method_names import qualified
from modelbuild_rules.program.steps.linking.estimates import estimates
from modelbuild_rules.program.steps.linking.link import Part, Residual, link

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import Signature
    from modelbuild_rules.program.documents import (
        BackendTotal,
        CompiledPartition,
        DelegationDocument,
        Manifest,
        ManifestKernels,
        ManifestPart,
        NodeDelegation,
        PartitionAbout,
        ProcessedBlob,
    )

_DIGESTED = 1 << 20


def run(step: Step) -> None:
    folders = step.inputs.get("parts", ())
    ids: Mapping[str, Sequence[str]] = step.params["partitions"]
    names = [qualified(method, id) for method, own in ids.items() for id in own]
    parts = {id: Part.read(folder) for id, folder in zip(names, folders, strict=True)}
    delegated = delegation(list(_nodes(step, ids)), parts)
    signature = _signature(step, ids)
    made = manifest(step, signature, delegated["partitions"], parts)
    link(_residuals(step, ids, parts), step.outputs["pte"], step.outputs.get("ptd"), made, step.params.get("modules"))
    delegated["estimates"] = estimates(step.outputs["pte"], delegated["partitions"])
    if signature is not None:
        step.outputs["signature"].write_text(json.dumps(signature, indent=1) + "\n")
    step.outputs["delegation"].write_text(json.dumps(delegated, indent=1) + "\n")
    for name, merging in step.params["sidecars"].items():
        written = [file for folder in folders if (file := folder / name).is_file()]
        importlib.import_module(merging).merge(written, step.outputs[name])


def _nodes(step: Step, methods: Iterable[str]) -> Iterator[NodeDelegation]:
    """Yield the nodes of all methods with the ids that their partitions have in the program."""
    for method, report in zip(methods, step.inputs["report"], strict=True):
        nodes: list[NodeDelegation] = json.loads(report.read_text())
        for node in nodes:
            made = node.copy()
            made["method"] = method
            if "partition" in made:
                made["partition"] = qualified(method, made["partition"])
            yield made


def _residuals(step: Step, ids: Mapping[str, Sequence[str]], parts: Mapping[str, Part]) -> dict[str, Residual]:
    return {
        method: Residual(
            folder / "program.pte", read_named(folder / "constants"), {id: parts[qualified(method, id)] for id in own}
        )
        for (method, own), folder in zip(ids.items(), step.inputs["residual"], strict=True)
    }


def _signature(step: Step, methods: Iterable[str]) -> Signature | None:
    """Return the program's signature: the inputs and outputs of each method. None if it is not given."""
    if "signature" not in step.inputs:
        return None
    found: list[Signature] = [json.loads(path.read_text()) for path in step.inputs["signature"]]
    (version,) = {each["version"] for each in found}
    ports = [only for each in found for only in each["methods"].values()]
    return {"version": version, "methods": dict(zip(methods, ports, strict=True))}


def manifest(
    step: Step,
    signature: Signature | None,
    partitions: Sequence[CompiledPartition],
    parts: Mapping[str, Part],
) -> Manifest:
    """Return the .pte's manifest. `partitions`: the entries of delegation.json."""
    versions: dict[str, str] = {}
    kernels: dict[str, list[str]] = {}
    for residual in step.inputs["residual"]:
        if (file := residual / "versions.json").is_file():
            versions |= json.loads(file.read_text())
        if (file := residual / "kernels.json").is_file():
            needed: list[ManifestKernels] = json.loads(file.read_text())
            for each in needed:
                known = kernels.setdefault(each["library"], [])
                known += [name for name in each["operators"] if name not in known]
    made: Manifest = {
        "version": 1,
        "signature": signature,
        "device": step.params.get("device"),
        "versions": versions,
        "parts": [_manifest_part(each, parts[each["id"]]) for each in partitions],
    }
    if any(part.about and part.about.get("state") for part in parts.values()) and "modules" in step.params:
        made["modules"] = step.params["modules"]
    if kernels:
        made["kernels"] = [{"library": name, "operators": sorted(kernels[name])} for name in kernels]
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
    counted: set[Hashable] = set()
    for partition in partitions:
        total = totals[partition["backend"]]
        total["partitions"] += 1
        part = parts[partition["id"]]
        sizes: list[tuple[Hashable, int]] = [(each.key, each.path.stat().st_size) for each in part.named]
        sizes.append((partition.get("processed_sha256", part.processed), partition["processed_bytes"]))
        total["bytes"] += sum(size for key, size in dict(sizes).items() if key not in counted)
        counted.update(key for key, _ in sizes)
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
