"""Compile a partition by cost, with candidates, and with their tuning file: `compile_choices.py PART OUT DRIVER`.

The outputs of backends.cuda.compile go to the folders `cost`, `candidates` and `file` in OUT. Each is made in a fork of
this process, which has imported everything; the candidates are timed with DRIVER, the folder of a CUDA driver. The
inputs of the C++ compiler and the linker are written to one file instead: these would take longest, and are equal for
all three.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch._inductor.compile_fx  # noqa: F401

from modelbuild_rules.backend_api.steps.partition_files import read_structure
from modelbuild_rules.backends.cuda.steps.generate.generate import Generated
from modelbuild_rules.backends.cuda.steps.library import compiled


def joined(generated: Generated, capabilities: Any, target: str, runtime: Path, folder: Path) -> Path:
    """Return everything that a library is linked from."""
    made = folder / "library.so"
    kernels = [part for each in generated.kernels for part in (each.entry.encode(), each.cubin.read_bytes())]
    made.write_bytes(b"\0".join([generated.source.encode(), *kernels]))
    return made


def compile(partition: Path, out: Path, more: dict[str, Any], tuning: Path | None) -> None:
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        os.environ[name] = str(out.with_name(f"{out.name}.caches") / name)
    program, specs = read_structure(partition / "program")
    (work := out.with_name(f"{out.name}.work")).mkdir()
    attributes = {"capabilities": [90], "target": "x86_64-linux-gnu.2.28", **more}
    check = patch.object(compiled, "check", lambda *_: SimpleNamespace(glibc=(2, 28)))
    with patch.object(compiled, "link", joined), check:
        parts: list[tuple[Any, ...]] = []
        compiled.compile(program, specs, attributes, {}, Path(), work, out, tuning, lambda *part: parts.append(part))
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
