"""List the module of each node of an exported program, without lines of source files.

Inputs   debug     JSON: Debug of model/documents.py
Outputs  modules   JSON: Modules of quantization/documents.py
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from modelbuild.step import Step

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import Debug
    from modelbuild_rules.quantization.documents import Modules


def run(step: Step) -> None:
    debug: Debug = json.loads(step.input("debug").read_bytes())
    modules: Modules = {name: place["module"] for name, place in debug.items() if "module" in place}
    step.outputs["modules"].write_text(json.dumps(modules, indent=1, sort_keys=True) + "\n")
