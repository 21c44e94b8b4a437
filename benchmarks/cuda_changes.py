"""Print what a change to a model for CUDA repeats: the actions that run, by kind, and the seconds.

    .venv/bin/python benchmarks/cuda_changes.py [--jobs N] [--cold] [CHANGE...]

Each row builds a program from timm 1.0.31 after the row above it, with one cache: ResNet-18, other weights, another
layer, float16, four pictures, and ResNet-34. `--cold` adds a build of ResNet-34 with a cache of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

KINDS = ("export", "partition", "weights", "choices", "choose", "compile", "kernel", "wrapper", "link", "store", "emit")
SOURCE = """import timm
import torch


def net(name, seed=0, dtype="float32", **given):
    torch.manual_seed(seed)
    return timm.create_model(name, **given).eval().to(getattr(torch, dtype))
"""
HEAD = """
[[device_target]]
name = "gpu"
arch = "x86_64"
compute_capabilities = ["9.0"]
"""
PROGRAM = """
[[torch_model]]
name = "{name}_model"
entry = "nets.py:net"
kwargs = {kwargs}
inputs = [{{ name = "image", shape = [{batch}, 3, 224, 224], dtype = "{dtype}" }}]

[[pte_program]]
name = "{name}"
model = ":{name}_model"
stack = ["cuda", "portable"]
device = ":gpu"
"""
CHANGES = {
    "first": ('{ name = "resnet18" }', 1, "float32"),
    "weights": ('{ name = "resnet18", seed = 1 }', 1, "float32"),
    "layer": ('{ name = "resnet18", num_classes = 10 }', 1, "float32"),
    "half": ('{ name = "resnet18", dtype = "float16" }', 1, "float16"),
    "batch": ('{ name = "resnet18" }', 4, "float32"),
    "related": ('{ name = "resnet34" }', 1, "float32"),
}


def build(workspace: Path, cache: Path, name: str, jobs: int) -> tuple[Counter[str], Counter[str], float]:
    """Build a program; return the numbers of actions that ran and of all, by kind, and the seconds."""
    result = workspace / f"{name}.json"
    command = [sys.executable, "-m", "modelbuild", "-C", workspace, "build", f"//:{name}", "--jobs", str(jobs)]
    began = time.monotonic()
    environment = {**os.environ, "MODELBUILD_CACHE_DIR": str(cache)}
    with result.open("w") as out:
        subprocess.run([*command, "--json"], check=True, stdout=out, stderr=subprocess.DEVNULL, env=environment)
    seconds = time.monotonic() - began
    actions = json.loads(result.read_text())["actions"]
    ran = Counter(each["mnemonic"] for each in actions if each["status"] == "ran")
    return ran, Counter(each["mnemonic"] for each in actions), seconds


def row(name: str, ran: Counter[str], every: Counter[str], seconds: float) -> str:
    cells = [f"{ran[kind]} of {every[kind]}" if every[kind] > 1 else str(ran[kind]) for kind in KINDS]
    return f"| {name} | {' | '.join(cells)} | {seconds:.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("changes", nargs="*", metavar="CHANGE", help=f"of {', '.join(CHANGES)} (default: all)")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--cold", action="store_true", help="also build ResNet-34 with an empty cache")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder) / "workspace"
        workspace.mkdir()
        (workspace / "MODELBUILD.toml").touch()
        (workspace / "nets.py").write_text(SOURCE)
        declared = [PROGRAM.format(name=n, kwargs=k, batch=b, dtype=d) for n, (k, b, d) in CHANGES.items()]
        (workspace / "BUILD.toml").write_text(HEAD + "".join(declared))
        print(f"| change | {' | '.join(KINDS)} | seconds |\n|{' --- |' * (len(KINDS) + 2)}")
        for name in given.changes or CHANGES:
            print(row(name, *build(workspace, Path(folder) / "cache", name, given.jobs)), flush=True)
        if given.cold:
            print(row("related, cold", *build(workspace, Path(folder) / "cold", "related", given.jobs)), flush=True)


if __name__ == "__main__":
    main()
