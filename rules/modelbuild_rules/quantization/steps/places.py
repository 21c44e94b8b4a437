"""Find the places of a quantized program's nodes in the model's source: the places of the nodes that they were made
from.

Inputs   origins   JSON: Origins of quantization/documents.py
         debug     JSON: Debug of model/documents.py, of the program in floating point
Outputs  debug     the same, of the quantized program
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from modelbuild.step import Step

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import Debug
    from modelbuild_rules.quantization.documents import Origins


def run(step: Step) -> None:
    origins: Origins = json.loads(step.input("origins").read_bytes())
    debug: Debug = json.loads(step.input("debug").read_bytes())
    found: Debug = {name: debug[origin] for name, origin in origins.items() if origin in debug}
    step.outputs["debug"].write_text(json.dumps(found, indent=1) + "\n")
