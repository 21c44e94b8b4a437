"""Read the recorded calls of a module without torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import RecordedCalls

CALLS, TENSORS = "calls.json", "tensors.safetensors"


class Calls:
    """The recorded calls in a folder that recorded.py wrote. `inputs` and `outputs` have the arrays of each call in
    order; an output that is None has no array."""

    def __init__(self, folder: Path) -> None:
        self.document: RecordedCalls = json.loads((folder / CALLS).read_bytes())
        from safetensors.numpy import load_file  # not in the keys of actions that read no calls

        arrays = load_file(folder / TENSORS)
        numbers = range(len(self.document["calls"]))
        self.inputs = [[arrays[f"{n}.in.{place}"] for place in range(self.document["inputs"])] for n in numbers]
        self.outputs: list[list[np.ndarray | None]] = [
            [arrays.get(f"{n}.out.{place}") for place in range(self.document["outputs"])] for n in numbers
        ]
