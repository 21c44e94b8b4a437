"""Run methods of a program on the emulator, by the C++ runtime: `run_methods.py PIECES`.

PIECES has program.pte, kernels.json, runtime/lib with the emulator's libraries, and calls.json: a list of calls, each a
method and its inputs, [dtype, values] by name. The first output of each call is printed as JSON, a line each.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"
sys.path.insert(0, str(Path(__file__).parents[5] / "runtime/python"))
import numpy as np
from emulator import Launcher

import modelbuild_runtime


def main(pieces: Path) -> None:
    launcher = Launcher(pieces / "runtime/lib", json.loads((pieces / "kernels.json").read_text()))
    program = modelbuild_runtime.load(pieces / "program.pte", runtime=pieces / "runtime")
    for method, given in json.loads((pieces / "calls.json").read_text()):
        inputs = {name: np.array(values, dtype) for name, (dtype, values) in given.items()}
        found = program.run(inputs, method)
        print(json.dumps(next(iter(found.values())).tolist()))
    assert launcher.count


if __name__ == "__main__":
    main(Path(sys.argv[1]))
