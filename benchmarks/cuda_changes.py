"""Print what a change to a model for CUDA repeats: the actions that run, by kind, and the seconds.

    .venv/bin/python benchmarks/cuda_changes.py [CHANGE...] [--jobs N] [--peers NAME...]
    .venv/bin/python benchmarks/cuda_changes.py --cold MODEL... [--jobs N... | --workers N...]

Each row builds a program from timm 1.0.31 after the row above it, with one cache: ResNet-18, other weights, another
layer, float16, four pictures, and ResNet-34. `--peers` runs scripts after each row, with one cache of Inductor for all
rows: torch's `aoti_compile_and_package`, and ExecuTorch's partitioner for CUDA. They need a GPU and a C++ compiler.
`--cold` builds programs of timm's models together, with an empty cache for each number of jobs, or of workers of the
farm of benchmarks/farm.py.
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
from collections.abc import Iterable, Sequence
from pathlib import Path

from farm import PYTHON, farm

KINDS = (
    *("export", "partition", "weights", "compile", "kernel", "wrapper", "interface", "link"),
    *("store", "emit"),
)
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
PEERS = {
    "aoti_compile_and_package": """
torch._inductor.aoti_compile_and_package(program, package_path=folder + "/program.pt2")
""",
    "ExecuTorch": """
from executorch.backends.cuda.cuda_backend import CudaBackend
from executorch.backends.cuda.cuda_partitioner import CudaPartitioner
from executorch.exir import to_edge_transform_and_lower
partitioner = CudaPartitioner([CudaBackend.generate_method_name_compile_spec("forward")])
lowered = to_edge_transform_and_lower(program, partitioner=[partitioner]).to_executorch()
with open(folder + "/program.pte", "wb") as file:
    lowered.write_to_file(file)
""",
}
SCRIPT = """
import sys, torch
from nets import net
folder = sys.argv[1]
model = net({arguments}).cuda()
program = torch.export.export(model, (torch.rand({batch}, 3, 224, 224, device="cuda", dtype=torch.{dtype}),))
{rest}
"""


def workspace_of(folder: Path, programs: Iterable[tuple[str, str, int, str]]) -> Path:
    """Write a workspace with programs: names, arguments, batch sizes and types."""
    folder.mkdir()
    (folder / "MODELBUILD.toml").touch()
    (folder / "nets.py").write_text(SOURCE)
    declared = [PROGRAM.format(name=name, kwargs=k, batch=b, dtype=d) for name, k, b, d in programs]
    (folder / "BUILD.toml").write_text(HEAD + "".join(declared))
    return folder


def build(workspace: Path, cache: Path, names: Sequence[str], *flags: str) -> tuple[Counter[str], Counter[str], float]:
    """Build programs; return the numbers of actions that ran and of all, by kind, and the seconds."""
    result = workspace / "result.json"
    command = [sys.executable, "-m", "modelbuild", "-C", workspace, "build", *(f"//:{name}" for name in names)]
    began = time.monotonic()
    environment = {**os.environ, "MODELBUILD_CACHE_DIR": str(cache)}
    with result.open("w") as out:
        subprocess.run([*command, *flags, "--json"], check=True, stdout=out, env=environment)
    seconds = time.monotonic() - began
    actions = json.loads(result.read_text())["actions"]
    ran = Counter(each["mnemonic"] for each in actions if each["status"] == "ran")
    return ran, Counter(each["mnemonic"] for each in actions), seconds


def row(name: str, ran: Counter[str], every: Counter[str], seconds: Sequence[float]) -> str:
    cells = [f"{ran[kind]} of {every[kind]}" if every[kind] > 1 else str(ran[kind]) for kind in KINDS]
    return f"| {name} | {' | '.join(cells)} | {' | '.join(f'{each:.0f}' for each in seconds)} |"


def peer(workspace: Path, name: str, change: str) -> float:
    """Return the seconds that a script takes."""
    kwargs, batch, dtype = CHANGES[change]
    arguments = kwargs.strip("{} ")
    script = workspace / f"{name}.py"
    script.write_text(SCRIPT.format(arguments=arguments, batch=batch, dtype=dtype, rest=PEERS[name]))
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(workspace / name)}
    began = time.monotonic()
    subprocess.run([sys.executable, script, workspace], check=True, env=environment, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def changes(folder: Path, names: Sequence[str], jobs: int, peers: Sequence[str]) -> None:
    workspace = workspace_of(folder / "workspace", [(name, *each) for name, each in CHANGES.items()])
    heads = ["change", *KINDS, "seconds", *peers]
    print(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    for name in names:
        ran, every, seconds = build(workspace, folder / "cache", [name], f"--jobs={jobs}")
        print(row(name, ran, every, [seconds, *(peer(workspace, each, name) for each in peers)]), flush=True)


def cold(folder: Path, models: Sequence[str], jobs: Sequence[int], workers: Sequence[int]) -> None:
    workspace = workspace_of(folder / "workspace", [(name, f'{{ name = "{name}" }}', 1, "float32") for name in models])
    (workspace / "MODELBUILD.toml").write_text(f'[remote]\npython = "{PYTHON}"\n')

    def row(what: str, *flags: str) -> None:
        _, every, seconds = build(workspace, folder / what, models, *flags)
        print(f"{len(models)} programs, {sum(every.values())} actions, {what}: {seconds:.0f} s", flush=True)

    for number in [] if workers else jobs:
        row(f"{number} jobs", f"--jobs={number}")
    for number in workers:
        with farm(folder / f"farm{number}", number) as address:
            row(f"{number} workers", f"--remote-cache={address}", f"--remote-executor={address}", "--strategy=*=remote")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("changes", nargs="*", metavar="CHANGE", help=f"of {', '.join(CHANGES)} (default: all)")
    parser.add_argument("--jobs", type=int, nargs="+", default=[2])
    parser.add_argument("--workers", type=int, nargs="+", default=[], metavar="N", help="with --cold, of a farm")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=[], metavar="NAME", help=f"of {', '.join(PEERS)}")
    parser.add_argument("--cold", nargs="+", metavar="MODEL", help="build these models with an empty cache")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if given.cold:
            cold(Path(folder), given.cold, given.jobs, given.workers)
        else:
            changes(Path(folder), given.changes or [*CHANGES], given.jobs[0], given.peers)


if __name__ == "__main__":
    main()
