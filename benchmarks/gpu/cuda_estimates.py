"""Compare the estimates of CUDA programs with their times on a GPU.

    python benchmarks/gpu/cuda_estimates.py run OUT PIECES...   # on a GPU
    python benchmarks/gpu/cuda_estimates.py fit OUT             # anywhere

PIECES are folders of programs that cuda_programs.py or cuda_peers.py built, unpacked. `run` writes to
OUT/estimates.jsonl for each program its estimate, its latencies with inputs and outputs in host memory, in device
memory, and as a CUDA graph, and, with ncu, the time of each kernel. `fit` prints for each program the estimate and the
times, and the factors of the error.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

REPEAT, WARMUP, LIMIT = 300, 30, 60


def measure(program: Path, runtime: Path) -> dict[str, Any]:
    """Return a program's estimate, its median latencies in seconds, and the seconds of each kernel of a call."""
    delegation = json.loads((program.parent / "delegation.json").read_text())
    found: dict[str, Any] = {
        "program": program.stem,
        "estimates": delegation["estimates"],
        "partitions": [
            part["about"]["estimate"] for part in delegation["partitions"] if "estimate" in part.get("about", {})
        ],
    }
    command = [str(runtime / "bin/modelbuild-run"), str(program), *inputs_of(program), "--json"]
    timed = [f"--repeat={REPEAT}", f"--warmup={WARMUP}"]
    for name, flags in (("host", []), ("device", ["--device-io"]), ("graph", ["--device-io", "--cuda-graph"])):
        done = subprocess.run([*command, *timed, *flags], capture_output=True, text=True, timeout=LIMIT)
        if done.returncode:
            found[f"{name}_problem"] = done.stderr.strip()[-200:]
        else:
            found[name] = json.loads(done.stdout)["latency"]["median_ms"] / 1e3
    if ncu := shutil.which("ncu"):
        profiler = [
            ncu,
            "--csv",
            "--metrics",
            "gpu__time_duration.sum",
            "--clock-control",
            "none",
            "--cache-control",
            "none",
        ]
        profiled = [*profiler, *command, "--repeat=1", "--warmup=1"]
        done = subprocess.run(profiled, capture_output=True, text=True, timeout=4 * LIMIT)
        found["kernels"] = kernel_times(done.stdout)
        if not found["kernels"]:
            found["kernels_problem"] = (done.stdout + done.stderr)[-400:]
    return found


def kernel_times(text: str) -> list[tuple[str, float]]:
    """Return each launch's kernel and seconds, from ncu's CSV."""
    start = text.find('"ID"')
    rows = csv.DictReader(io.StringIO(text[start:])) if start >= 0 else []
    scale = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "nsecond": 1e-9, "usecond": 1e-6, "msecond": 1e-3}
    return [
        (row["Kernel Name"], float(row["Metric Value"].replace(",", "")) * scale[row["Metric Unit"]])
        for row in rows
        if row.get("Metric Name") == "gpu__time_duration.sum"
    ]


def inputs_of(program: Path) -> list[str]:
    """Write the example inputs, and return the flags that name them."""
    signature = json.loads((program.parent / "signature.json").read_text())["methods"]["forward"]
    calls = program.parent / "calls.npz"
    flags = []
    for place, port in enumerate(signature["inputs"]):
        path = program.parent / f"estimate.{place}.npy"
        if calls.exists():
            np.save(path, np.load(calls)[f"in.0.{place}"])
        else:
            shape = [each if isinstance(each, int) else each["max"] for each in port["shape"]]
            whole = port["dtype"].startswith(("int", "uint"))
            values = (
                np.random.default_rng(0).integers(0, 100, shape) if whole else np.random.default_rng(0).random(shape)
            )
            np.save(path, values.astype(port["dtype"]))
        flags.append(f"--input={port['name']}={path}")
    return flags


def run(out: Path, folders: list[Path]) -> None:
    for pieces in folders:
        for program in sorted(pieces.glob("*/*.pte")):
            found = measure(program, pieces / "runtime")
            with (out / "estimates.jsonl").open("a") as file:
                file.write(json.dumps(found) + "\n")
            print(
                json.dumps({key: value for key, value in found.items() if key not in ("partitions", "kernels")}),
                flush=True,
            )


def fit(out: Path) -> None:
    lines = [json.loads(line) for line in (out / "estimates.jsonl").read_text().splitlines()]
    print("| program | estimate, us | host | device | graph | sum of kernels | estimate / host |")
    print("| --- " * 7 + "|")
    ratios = []
    for line in lines:
        (estimate,) = line["estimates"].values()
        kernels = sum(seconds for _, seconds in last_call(line.get("kernels", [])))
        ratio = estimate["seconds"] / line["host"] if "host" in line and not estimate["unknown"] else None
        ratios += [ratio] if ratio else []
        cells = [estimate["seconds"], line.get("host"), line.get("device"), line.get("graph"), kernels]
        shown = [f"{cell * 1e6:.0f}" if cell else "" for cell in cells]
        print(f"| {line['program']} | " + " | ".join(shown) + f" | {ratio:.2f} |" if ratio else " | partly unknown |")
    if ratios:
        errors = sorted(max(ratio, 1 / ratio) for ratio in ratios)
        print(
            f"factor of the error: median {statistics.median(errors):.2f}, most {errors[-1]:.2f}; mean ratio"
            f" {math.exp(statistics.mean(map(math.log, ratios))):.2f}"
        )


def last_call(kernels: list[Any]) -> list[Any]:
    """Return the launches of the last of three equal calls: one to check the inputs, one to warm up, one measured."""
    return kernels[2 * len(kernels) // 3 :]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "fit"])
    parser.add_argument("out", type=Path)
    parser.add_argument("pieces", nargs="*", type=Path)
    given = parser.parse_args()
    run(given.out, given.pieces) if given.what == "run" else fit(given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
