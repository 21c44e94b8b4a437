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
from typing import Any
from unittest.mock import patch

from emulator.kernel_facts import kernel_facts
from emulator.memory_check import widths

from modelbuild.step import Step
from modelbuild_rules.backends.cuda.steps import compile as compile_step
from modelbuild_rules.backends.cuda.steps import generate_code, kernel
from modelbuild_rules.backends.cuda.steps.generate.generate import Generated
from modelbuild_rules.backends.cuda.steps.kernels import compiler
from modelbuild_rules.backends.cuda.steps.kernels.compiler import Compiled, module_file
from modelbuild_rules.backends.cuda.steps.library.images import IMAGE
from modelbuild_rules.backends.cuda.steps.storing import store


def main(partition: Path, capabilities: str, runtime: Path, out: Path) -> None:
    attributes = {"capabilities": [int(each) for each in capabilities.split(",")], "target": "x86_64-linux-gnu.2.28"}
    (code := out / "code").mkdir()
    (out / "compiled").mkdir()
    step = Step(
        {"attributes": attributes}, {"program": (partition / "program",), "runtime": (runtime,)}, {"code": code}, out
    )
    generated: list[Generated] = []
    compiled: dict[str, Compiled] = {}
    images: dict[str, bytes] = {}
    write_code, write_image = generate_code.write_code, kernel.write_image

    def generate(*given: Any) -> Generated:
        generated.append(write_code(*given))
        return generated[0]

    def compile_image(request: Any, capabilities: Any, work: Path, folder: Path) -> Compiled:
        compiled[request.key] = write_image(request, capabilities, work, folder)
        images[request.key] = (folder / IMAGE).read_bytes()
        return compiled[request.key]

    with (
        TemporaryDirectory() as work,
        patch.object(compiler, "LINE_NUMBERS", True),
        patch.object(generate_code, "write_code", generate),
        patch.object(kernel, "write_image", compile_image),
    ):
        compile_step.compile(step, Path(work))
    store(code, partition, out / "compiled")
    (out / "library.so").write_bytes((code / "library.so").read_bytes())
    kernels = {}
    for each in generated[0].kernels:
        made, image = compiled[each.request.key], images[each.request.key]
        source = module_file(each.request, out)
        source.write_text(each.request.source)
        kernels[f"{made.entry} {zlib.adler32(image):08x}"] = {  # the name of the emulator's driver
            **kernel_facts(each.request),
            **asdict(made.usage),
            "name": each.name,
            "entry": made.entry,
            "source": str(source),
            "widths": widths(made.ptx, source.name),
        }
    (out / "kernels.json").write_text(json.dumps(kernels, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
