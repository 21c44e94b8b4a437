"""Compile a partition in a separate process: `compile_partition.py PARTITION CAPABILITIES RUNTIME OUT`.

Writes library.so, kernels.json (for the emulator) and compiled/ to OUT, an existing folder. Unlike in a
build, kernels contain line numbers, by which the emulator knows how wide each access is.
"""

from __future__ import annotations

import json
import sys
import zlib
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from emulator.memory_check import widths

from modelbuild_rules.backend_api.steps.partition_files import read_changed, read_structure
from modelbuild_rules.backends.cuda.steps.generate import target_gpu
from modelbuild_rules.backends.cuda.steps.library import compiled
from modelbuild_rules.backends.cuda.steps.storing import store


def main(partition: Path, capabilities: str, runtime: Path, out: Path) -> None:
    attributes = {"capabilities": [int(each) for each in capabilities.split(",")], "target": "x86_64-linux-gnu.2.28"}
    program, specs = read_structure(partition / "program")
    (out / "code").mkdir()
    (out / "compiled").mkdir()
    target_gpu.LINE_NUMBERS = True
    with TemporaryDirectory() as work:
        changed = read_changed(partition / "program")
        made = compiled.compile(program, specs, attributes, changed, runtime, Path(work), out / "code")
        store(out / "code", partition, out / "compiled")
        (out / "library.so").write_bytes((Path(work) / "library.so").read_bytes())
        images = [(Path(work) / f"kernel.{number}.bin").read_bytes() for number in range(len(made.kernels))]
    kernels = {}
    for kernel, image in zip(made.kernels, images, strict=True):
        source = out / f"{kernel.name}.py"
        source.write_bytes(kernel.source.read_bytes())
        seen = widths(kernel.ptx.read_text(), kernel.source.name)
        about = {**asdict(kernel), "source": str(source), "ptx": None, "cubin": None, "widths": seen}
        kernels[f"{kernel.entry} {zlib.adler32(image):08x}"] = about  # the name of the emulator's driver
    (out / "kernels.json").write_text(json.dumps(kernels, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
