"""Write the weights of a compiled partition as its library reads them.

Inputs   code       tree: library.so, constants.json ([StoredConstant] of backends/cuda/documents.py), values/ and other
                    files of the compiled partition, as backends/cuda/steps/compile.py writes them
         partition  tree: the partition
Outputs  compiled   tree: the compiled partition, as of every compile step (backend_api/steps/compile.py)
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from modelbuild.step import Step
from modelbuild_rules.backend_api.steps.compiled import PROCESSED
from modelbuild_rules.backend_api.steps.named_data import NamedBytes, write_named
from modelbuild_rules.backend_api.steps.recipes import read_weights
from modelbuild_rules.backends.cuda.steps.constants import evaluated, layout, storage

if TYPE_CHECKING:
    from modelbuild_rules.backends.cuda.documents import StoredConstant

LIBRARY, CONSTANTS, VALUES = "library.so", "constants.json", "values"
"""Names in the folder of a library."""


def run(step: Step) -> None:
    store(step.input("code"), step.input("partition"), step.outputs["compiled"])


def store(code: Path, partition: Path, folder: Path) -> None:
    """Write a compiled partition to an existing folder. Each constant is a separate entry, so that several partitions
    share it; one is in memory at a time. Raises ValueError for a constant with another layout than its library's."""
    constants: list[StoredConstant] = json.loads((code / CONSTANTS).read_text())
    weights = read_weights(partition)
    library = (code / LIBRARY).read_bytes()
    key = f"{hashlib.sha256(library).hexdigest()}_so_blob"
    lines: list[str] = []  # as runtime/aoti/constants.hpp reads them

    def entries() -> Iterator[NamedBytes]:
        yield NamedBytes(key, library, 1, False)
        written = set()
        for each in constants:
            data = _value(each, weights, code / VALUES)
            own = f"{hashlib.sha256(data).hexdigest()}_constant"
            lines.append(f"{each['line']} {own} {each['state']}\n")
            if own not in written:
                written.add(own)
                yield NamedBytes(own, data, 1, True)
        text = "".join(lines).encode()
        listed = f"{hashlib.sha256(text).hexdigest()}_constants"
        (folder / PROCESSED).write_text(f"{key}\n\n{listed}")
        yield NamedBytes(listed, text, 1, False)

    write_named(folder, entries())
    for path in code.iterdir():
        if path.name not in (LIBRARY, CONSTANTS, VALUES):
            shutil.copyfile(path, folder / path.name)


def _value(constant: StoredConstant, weights: dict[str, Tensor], values: Path) -> bytes:
    """Return the bytes of a constant's storage."""
    if "value" in constant:
        return (values / constant["value"]).read_bytes()
    tensor = evaluated(constant["recipe"], weights)
    if layout(tensor) != constant["layout"]:
        raise ValueError(f"constant {constant['line']} was compiled as {constant['layout']}, and is {layout(tensor)}")
    return storage(tensor)
