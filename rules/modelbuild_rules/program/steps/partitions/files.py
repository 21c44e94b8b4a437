"""Read and write partitions: a program under canonical names, and its partitioner's data for the compiler.

`partition.json` contains the compile specs and, by position in the graph, the partitioner's annotations for its
backend's compiler. Equal partitions have equal bytes, whichever program they come from.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from executorch.exir.backend.compile_spec_schema import CompileSpec

from modelbuild_rules.model.steps.exported.program import canonicalize, load_program, save_program

_ABOUT = "partition.json"


def write_partition(program: Any, specs: Sequence[Any], annotations: Collection[str], folder: Path) -> None:
    """Write an edge program and its compile specs to a new folder. `annotations` are keys of nodes' meta."""
    (folder / "program").mkdir(parents=True)
    (folder / "weights").mkdir()
    program = canonicalize(program, annotations)
    save_program(program, folder / "program", folder / "weights")
    made = {}
    for place, node in enumerate(program.graph.nodes):
        found = {key: node.meta[key] for key in sorted(annotations) if key in node.meta}
        if found:
            made[str(place)] = found
    described = [{"key": spec.key, "value": bytes(spec.value).hex()} for spec in specs]
    (folder / _ABOUT).write_text(json.dumps({"specs": described, "annotations": made}, indent=1) + "\n")


def read_partition(folder: Path) -> tuple[Any, list[CompileSpec]]:
    """Return the program and the compile specs that `write_partition` wrote."""
    program = load_program(folder / "program", folder / "weights")
    about = json.loads((folder / _ABOUT).read_text())
    nodes = list(program.graph.nodes)
    for place, found in about["annotations"].items():
        nodes[int(place)].meta.update(found)
    return program, [CompileSpec(spec["key"], bytes.fromhex(spec["value"])) for spec in about["specs"]]
