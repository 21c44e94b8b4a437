"""The storing step, for partitions compiled without the values of their weights.

Inputs   code       tree: the compiled partition without the bytes of weights, and stored.json ([StoredData] of
                    backend_api/documents.py); or needs_values.json (NeededValues), if the compiler needs the values
         partition  tree: the partition
Outputs  compiled   tree: the compiled partition, as of every compile step (compile.py)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modelbuild.step import Step
from modelbuild_rules.backend_api.steps.compiled import PROCESSED, Compiled
from modelbuild_rules.backend_api.steps.named_data import NamedBytes, read_named, write_named
from modelbuild_rules.backend_api.steps.recipes import read_weights
from modelbuild_rules.model.steps.exported.recipes import Recipes
from modelbuild_rules.model.steps.exported.sources import Sources
from modelbuild_rules.model.steps.exported.sources import ValuesNeeded as ValuesNeeded

if TYPE_CHECKING:
    from modelbuild_rules.backend_api.documents import NeededValues, StoredFile

STORED, NEEDS_VALUES = "stored.json", "needs_values.json"


def write_code(compiled: Compiled, sources: Sources, folder: Path) -> None:
    """Write a compiled partition whose data has marks (sources.py) to an existing folder."""
    named = []
    made: StoredFile = {"calls": {}, "data": {}}
    for each in compiled.named:
        name = sources.marked(each.data)
        if name is not None:
            digest = hashlib.sha256(each.data).hexdigest()
            made["data"][each.key] = {"name": name, "size": len(each.data), "sha256": digest}
            each = each._replace(data=b"")
        named.append(each)
    made["calls"] = sources.calls(each["name"] for each in made["data"].values())
    Compiled(compiled.processed, tuple(named)).write(folder)
    (folder / STORED).write_text(json.dumps(made, indent=1) + "\n")


def write_needed(why: str, attributes: Mapping[str, Any], folder: Path) -> None:
    """Empty a folder, and write that the partition has to be compiled with values, with these attributes."""
    for path in folder.iterdir():
        path.unlink()
    needed: NeededValues = {"why": why, "attributes": attributes}
    (folder / NEEDS_VALUES).write_text(json.dumps(needed, indent=1) + "\n")


def store(step: Step, compile_whole: Callable[[Step], None]) -> None:
    """Run the storing step. Digests of marks as names of data become digests of values. `compile_whole` runs a compile
    step with values, if the compiler needs them."""
    code, partition, folder = step.input("code"), step.input("partition"), step.outputs["compiled"]
    if (code / NEEDS_VALUES).exists():
        needed: NeededValues = json.loads((code / NEEDS_VALUES).read_text())
        return compile_whole(replace(step, params={"attributes": needed["attributes"]}))
    stored: StoredFile = json.loads((code / STORED).read_text())
    recipes = Recipes(stored["calls"], read_weights(partition))
    renamed: dict[str, str] = {}

    def entries() -> Iterator[NamedBytes]:
        written = set()
        for each in read_named(code):
            key, found = each.key, stored["data"].get(each.key)
            if found is None:
                data = each.path.read_bytes()
            else:
                data = recipes.data(found["name"], found["size"])
                key = key.replace(found["sha256"], hashlib.sha256(data).hexdigest())
                renamed[each.key] = key
            if key not in written:
                written.add(key)
                yield NamedBytes(key, data, each.alignment, each.external)

    write_named(folder, entries())
    processed = (code / PROCESSED).read_bytes()
    for key, new in renamed.items():
        processed = processed.replace(key.encode(), new.encode())
    (folder / PROCESSED).write_bytes(processed)
