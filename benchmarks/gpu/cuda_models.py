"""Run models of tests/zoo on a GPU, compared with eager PyTorch on the CPU.

    python tests/zoo/table.py --stack cuda LABEL...             # without a GPU: build the programs
    python benchmarks/gpu/cuda_models.py build PIECES LABEL...      # without a GPU
    python benchmarks/gpu/cuda_models.py run PIECES OUT [--memcheck]

`build` writes PIECES.tar.xz: the programs, inputs of three calls, eager PyTorch's outputs, and build/runtime.tar.
Besides it, `run` needs this file and a Python with numpy. It prints a table, and writes it to OUT/table.md.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

REPOSITORY = Path(__file__).parents[2]
CALLS = (1, 2, 3)
REPEAT = 300  # runs that are timed; a thirtieth of them, if the calls take more than SLOW seconds
LIMIT, MEMCHECK_LIMIT, SLOW = 60, 240, 3  # seconds for one program
ALLOWED = 1e-3  # of an output's greatest change from one call to another
SANITIZER = ["compute-sanitizer", "--tool", "memcheck"]


# -- without a GPU --------------------------------------------------------------------------------------------------


def build(pieces: Path, labels: Sequence[str]) -> None:
    """Write each program to a folder below PIECES, with inputs and outputs as call.CALL.in.NAME.npy and .out."""
    sys.path[:0] = [str(REPOSITORY / "tests/zoo"), str(REPOSITORY / "rules")]
    from programs import ZOO, outputs

    names = []
    for label in labels:
        folder = pieces / label.removeprefix("//").replace(":", ".")
        folder.mkdir(parents=True, exist_ok=True)
        names.append(folder.name)
        made = outputs(label, "cuda")
        for file in made.iterdir():
            (folder / file.name).write_bytes(file.read_bytes())
        write_calls(folder, label, ZOO)
        print(label, flush=True)
    with tarfile.open(REPOSITORY / "build/runtime.tar") as archive:
        archive.extractall(pieces / "runtime")
    with tarfile.open(pieces.with_suffix(".tar.xz"), "w:xz", preset=3) as archive:
        for name in ["runtime", *names]:
            archive.add(pieces / name, name)


def write_calls(folder: Path, label: str, workspace: Path) -> None:
    """Draw inputs, and run the module of a torch_model on them, as its export does."""
    import torch
    from torch.utils._pytree import tree_leaves

    from modelbuild_rules.model.steps.eager.call import arguments
    from modelbuild_rules.model.steps.eager.example_inputs import example_inputs
    from modelbuild_rules.model.steps.eager.module import make_module
    from modelbuild_rules.model.steps.eager.results import plain

    query = [sys.executable, "-m", "modelbuild", "-C", workspace, "aquery", label, "--output", "json"]
    (export,) = json.loads(subprocess.run(query, capture_output=True, check=True, text=True).stdout)["nodes"]
    params = export["params"]
    module = make_module(workspace, params, {})
    signature = json.loads((folder / "signature.json").read_text())["methods"]["forward"]
    names = {kind: [port["name"] for port in signature[f"{kind}puts"]] for kind in ("in", "out")}
    for call in CALLS:
        given = example_inputs(params["inputs"], params["dynamic"], 100 * call, {})
        with torch.no_grad():
            args, kwargs = arguments(module, params, given)
            result = tree_leaves(plain(module(*args, **kwargs)))
        for kind, tensors in (("in", given), ("out", result)):
            for name, tensor in zip(names[kind], tensors, strict=True):
                np.save(folder / f"call.{call}.{kind}.{name}.npy", tensor.numpy())


# -- with one -------------------------------------------------------------------------------------------------------


@dataclass
class Row:
    """A program's results: over all outputs and calls, the greatest difference from eager PyTorch, and the greatest
    change of an output from one call to another."""

    name: str
    difference: float = 0.0
    change: float = 0.0
    right: bool = False
    latency_us: float = 0.0
    memcheck: str = ""
    problem: str = ""

    def line(self) -> str:
        result = self.problem or ("yes" if self.right else "no")
        figures = [f"{self.difference:.1e}", f"{self.change:.1e}", result, f"{self.latency_us:.0f}", self.memcheck]
        return f"| {self.name} | {' | '.join(figures)} |"


def run(pieces: Path, out: Path, memcheck: bool) -> int:
    """Run each program, first all alone, then under memcheck. Return 1 if a result is wrong or memcheck finds an error,
    else 0."""
    with tarfile.open(pieces.with_suffix(".tar.xz")) as archive:
        archive.extractall(pieces)
    folders = sorted(path.parent for path in pieces.glob("*/signature.json"))
    rows = []
    for folder in folders:
        rows.append(compared(folder))
        print(rows[-1].line(), flush=True)
    if memcheck:
        with ThreadPoolExecutor(6) as pool:
            for row, found in zip(rows, pool.map(errors, folders), strict=True):
                row.memcheck = found
    head = ["| program | difference | change between calls | agrees | us | memcheck errors |", "| --- " * 6 + "|"]
    table = "\n".join([*head, *(row.line() for row in rows)])
    out.mkdir(parents=True, exist_ok=True)
    (out / "table.md").write_text(table + "\n")
    print(table)
    return int(not all(row.right and row.memcheck in ("", "0") for row in rows))


def compared(folder: Path) -> Row:
    """Run a program's calls one after another, and compare their outputs; then time its first call."""
    row = Row(folder.name)
    began = time.monotonic()
    once = modelbuild_run(folder, ["--output-dir", str(folder / "out")], LIMIT)
    seconds = time.monotonic() - began
    if once.returncode:
        row.problem = once.stderr.strip()[-300:].replace("\n", " ")
        return row
    row.right = True
    for path in sorted(folder.glob(f"call.{CALLS[0]}.out.*.npy")):
        wanted = [np.load(folder / path.name.replace(f".{CALLS[0]}.", f".{call}.", 1)) for call in CALLS]
        got = [np.load(folder / "out" / str(call) / path.name.split(".", 3)[3]) for call in CALLS]
        # np.max keeps NaN, for which the comparison is false.
        difference = float(np.max([apart(*pair) for pair in zip(got, wanted, strict=True)]))
        change = float(np.max([apart(each, wanted[0]) for each in wanted[1:]]))
        row.right &= difference <= ALLOWED * change
        row.difference = float(np.max([row.difference, difference]))
        row.change = float(np.max([row.change, change]))
    row.right &= row.change > 0  # constants would agree whatever the program computes
    repeat = REPEAT if seconds < SLOW else REPEAT // 30
    timed = modelbuild_run(folder, ["--json", f"--repeat={repeat}", f"--warmup={repeat // 10}"], LIMIT, calls=CALLS[:1])
    if timed.returncode:
        row.problem = timed.stderr.strip()[-300:].replace("\n", " ")
    else:
        row.latency_us = json.loads(timed.stdout)["latency"]["median_ms"] * 1e3
    return row


def apart(one: np.ndarray, other: np.ndarray) -> float:
    """Return the greatest difference of two arrays; NaN if they have different types or shapes."""
    if (one.shape, one.dtype) != (other.shape, other.dtype):
        return float("nan")
    return float(np.abs(one.astype(float) - other.astype(float)).max(initial=0))


def errors(folder: Path) -> str:
    """Return the number of errors that memcheck finds in a program's calls, or the end of what it printed."""
    done = modelbuild_run(folder, [], MEMCHECK_LIMIT, before=SANITIZER)
    text = done.stdout + done.stderr
    (folder / "memcheck.txt").write_text(text)
    found = re.search(r"ERROR SUMMARY: (\d+) error", text)
    return found[1] if found and not done.returncode else text.strip()[-300:].replace("\n", " ")


def modelbuild_run(
    folder: Path, options: Sequence[str], limit: float, calls: Sequence[int] = CALLS, before: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a program's calls in one process of modelbuild-run. Its exit code is 124 if it does not end in `limit` s."""
    (program,) = folder.glob("*.pte")
    line = [*before, str(folder.parent / "runtime/bin/modelbuild-run"), str(program), *options]
    for call in calls:
        line += ["--next"] if call != calls[0] else []
        for path in sorted(folder.glob(f"call.{call}.in.*.npy")):
            line.append(f"--input={path.name.split('.')[3]}={path}")
    try:
        return subprocess.run(line, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(line, 124, "", f"no end after {limit} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("build", "run"):
        command = commands.add_parser(name)
        command.add_argument("pieces", type=lambda text: Path(text).resolve())
    commands.choices["build"].add_argument("labels", nargs="+", metavar="LABEL")
    commands.choices["run"].add_argument("out", type=Path)
    commands.choices["run"].add_argument("--memcheck", action="store_true", help="also run under compute-sanitizer")
    given = parser.parse_args()
    if given.command == "run":
        if given.memcheck and not shutil.which(SANITIZER[0]):
            parser.error(f"--memcheck: {SANITIZER[0]} was not found; expected CUDA's toolkit in PATH")
        return run(given.pieces, given.out, given.memcheck)
    build(given.pieces, given.labels)
    return 0


if __name__ == "__main__":
    sys.exit(main())
