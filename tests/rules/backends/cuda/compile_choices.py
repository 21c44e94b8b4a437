"""Compile a partition by cost, with candidates, and with their tuning file: `compile_choices.py PART OUT DRIVER`.

The generated code goes to the folders `cost`, `candidates` and `file` in OUT. Each is made in a fork of this process,
which has imported everything; the candidates are timed with DRIVER, the folder of a CUDA driver. The C++ source and the
requests of kernels are written to one file.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import torch._inductor.compile_fx  # noqa: F401

from modelbuild_rules.backend_api.steps.partition_files import read_structure
from modelbuild_rules.backends.cuda.steps.library.code import write_code


def compile(partition: Path, out: Path, more: dict[str, Any], tuning: Path | None) -> None:
    """Write the generated code, and the requests of kernels instead of the library."""
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        os.environ[name] = str(out.with_name(f"{out.name}.caches") / name)
    program, specs = read_structure(partition / "program")
    attributes = {"capabilities": [90], "target": "x86_64-linux-gnu.2.28", **more}
    parts: list[tuple[Any, ...]] = []
    made = write_code(program, specs, attributes, {}, tuning, out, lambda *part: parts.append(part))
    requests = [text for each in made.kernels for text in (each.name, each.request.text())]
    (out / "library.so").write_text("\0".join([made.source, *requests]))
    out.with_name(f"{out.name}.parts").write_text(json.dumps(parts))


def forked(partition: Path, out: Path, more: dict[str, Any], tuning: Path | None = None) -> None:
    """Compile in a fork. Exit on failure."""
    out.mkdir()
    if child := os.fork():
        if os.waitpid(child, 0)[1]:
            sys.exit(f"{out.name} failed")
        return
    try:
        compile(partition, out, more, tuning)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def main(partition: Path, out: Path, driver: Path) -> None:
    forked(partition, out / "cost", {})
    forked(partition, out / "candidates", {"candidates": 64})
    timing = [sys.executable, "-I", "-S", out / "candidates/tuning.pyz", out / "net.tuning.json"]
    subprocess.run(timing, env={"LD_LIBRARY_PATH": str(driver)}, check=True)
    forked(partition, out / "file", {}, out / "net.tuning.json")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
