"""Run a whole program on the emulator, by the C++ runtime: `run_program.py PIECES NAME`. Prints the result of `parity`.

benchmarks/gpu/cuda_programs.py makes PIECES; the emulator's libraries are among those of the runtime, and the program's
folder also has kernels.json.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"
sys.path += [str(Path(__file__).parents[1])]
sys.path += [str(Path(__file__).parents[5] / folder) for folder in ("benchmarks/gpu", "examples/models")]
from cuda_parity import parity
from device import Device
from emulator import Launcher


def main(pieces: Path, name: str) -> None:
    launcher = Launcher(pieces / "runtime/lib", json.loads((pieces / name / "kernels.json").read_text()))
    device = Device(pieces / "runtime/lib", launcher.runtime, launcher.driver)  # as long as the program runs
    print(json.dumps({**parity(pieces, name), "launches": launcher.count}))
    del device


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
