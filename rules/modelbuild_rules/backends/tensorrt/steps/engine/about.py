"""Write the facts about an engine for delegation.json, bundles and manifests. Torch-free."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from modelbuild_rules.backend_api.steps.compiled import ABOUT
from modelbuild_rules.backends.tensorrt.steps.engine.plan_header import PlanHeader, libraries

if TYPE_CHECKING:
    from modelbuild_rules.backend_api.documents import PartitionFacts


def write_about(
    folder: Path, header: PlanHeader, capabilities: Sequence[str], version_compatible: bool = False
) -> None:
    """Write about.json of a compiled partition. `version_compatible`: newer versions of TensorRT, and the lean library,
    can run the engine. TensorRT-RTX's library itself accepts or rejects engines of older versions."""
    about: PartitionFacts = {
        "capabilities": [int(each.replace(".", "")) for each in capabilities],
        "requires": {
            "product": header.product,
            "version": header.version_text,
            "exact": not version_compatible and header.product == "TensorRT",
            "libraries": libraries(header, version_compatible),
        },
    }
    (folder / ABOUT).write_text(json.dumps(about, indent=1) + "\n")
