"""The facts about a program for its SBOM."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from modelbuild.api import Artifact, Component, Contents

if TYPE_CHECKING:
    from modelbuild_rules.program.documents import DelegationDocument, Verified


def program_contents(name: str, delegation: Artifact, verified: Artifact | None) -> Contents:
    """Return the contents of a program: its backends, the libraries that it needs in addition to the runtime, and the
    number of calls on which it was compared with its model."""
    return Contents((delegation, *([verified] if verified else [])), partial(_components, name))


def _components(name: str, delegation: Mapping[str, Path], *verified: Mapping[str, Path]) -> list[Component]:
    document: DelegationDocument = json.loads(delegation[""].read_bytes())
    counts = {
        str(backend): f"{total['partitions']} partitions, {total['nodes']} operators"
        for backend, total in document["totals"].items()
    }
    properties = {f"backend {backend}": text for backend, text in sorted(counts.items())}
    for part in document["partitions"]:
        requires = part.get("about", {}).get("requires")
        if requires is not None:
            properties[f"needs {requires['product']}"] = requires["version"]
    compared: list[Verified] = [json.loads(each[""].read_bytes()) for each in verified]
    calls = sum(len(method["calls"]) for each in compared for method in each["methods"].values())
    properties["compared with its model"] = f"on {calls} calls" if calls else "no"
    return [Component(name, kind="data", properties=properties)]
