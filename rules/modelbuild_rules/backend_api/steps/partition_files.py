"""Read and write partitions: a program under canonical names, and its partitioner's data for the compiler.

A partition is two folders: `program` has everything except the values of tensors, `weights` has the values.
`partition.json`, in `program`, contains the compile specs and, by position in the graph, the partitioner's annotations
for its backend's compiler. Equal partitions of any programs have equal bytes. A partition that changes buffers also has
`changed`: their qualified names, by their names in its program.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from executorch.exir.backend.compile_spec_schema import CompileSpec

from modelbuild_rules.model.steps.exported.program import canonicalize, load_program, save_program

_ABOUT = "partition.json"


def write_partition(whole: Any, specs: Sequence[Any], annotations: Collection[str], folder: Path) -> None:
    """Write an edge program and its compile specs to a new folder. `annotations` are keys of nodes' meta."""
    (folder / "program").mkdir(parents=True)
    (folder / "weights").mkdir()
    program = canonicalize(whole, annotations)
    save_program(program, folder / "program", folder / "weights")
    made = {}
    for place, node in enumerate(program.graph.nodes):
        found = {key: node.meta[key] for key in sorted(annotations) if key in node.meta}
        if found:
            made[str(place)] = found
    described = [{"key": spec.key, "value": bytes(spec.value).hex()} for spec in specs]
    changed = _changed(whole, program)
    about = {"specs": described, "annotations": made, **({"changed": changed} if changed else {})}
    (folder / "program" / _ABOUT).write_text(json.dumps(about, indent=1) + "\n")


def _changed(whole: Any, canonical: Any) -> dict[str, str]:
    """Return the names of the buffers that a program changes, by their names in its canonical form."""
    stored, own = (
        dict.fromkeys(spec.target for spec in each.graph_signature.input_specs if spec.target is not None)
        for each in (whole, canonical)
    )
    changed = set(canonical.graph_signature.buffers_to_mutate.values())
    return {new: old for old, new in zip(stored, own, strict=True) if new in changed}


def read_partition(folder: Path) -> tuple[Any, list[CompileSpec]]:
    """Return the program and the compile specs that `write_partition` wrote."""
    return _read(folder / "program", folder / "weights")


def read_structure(folder: Path) -> tuple[Any, list[CompileSpec]]:
    """Return the program, whose tensors are on the device `meta`, and the compile specs of a partition's folder
    `program`."""
    return _read(folder, None)


def _read(structure: Path, weights: Path | None) -> tuple[Any, list[CompileSpec]]:
    program = load_program(structure, weights)
    about = json.loads((structure / _ABOUT).read_text())
    nodes = list(program.graph.nodes)
    for place, found in about["annotations"].items():
        nodes[int(place)].meta.update(found)
    return program, [CompileSpec(spec["key"], bytes.fromhex(spec["value"])) for spec in about["specs"]]


def read_changed(folder: Path) -> Mapping[str, str]:
    """Return the qualified names of the buffers that a partition changes, by their names in its program. `folder` is
    the partition's folder `program`."""
    found: Mapping[str, str] = json.loads((folder / _ABOUT).read_text()).get("changed", {})
    return found
