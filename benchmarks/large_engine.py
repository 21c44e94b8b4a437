"""Measure the peak memory of each step that brings a large engine into a .pte, relative to the engine's bytes.

An fp32 Linear of SIZE x SIZE goes through the steps partition, compile (TensorRT-RTX, without a GPU) and emit, each in
a process of its own:

    python benchmarks/large_engine.py --size 32768     # 4 GiB of weights: needs 18 GB of memory and 17 of disk
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

STEPS = ("partition", "compile", "emit")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=8192, help="rows and columns of the layer (8192: 256 MiB)")
    parser.add_argument("--folder", type=Path, help="where to write; a temporary folder by default")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        globals()[options.step](options.folder, options.size)
        # Linux returns kilobytes.
        print(json.dumps({"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        peaks = {step: peak(step, Path(folder), options.size) for step in STEPS}
        engine = (Path(folder) / "compiled/processed.bin").stat().st_size
        pte = (Path(folder) / "model.pte").stat().st_size
    print(f"engine {engine:,} bytes, program {pte:,} bytes")
    for step, bytes_ in peaks.items():
        print(f"{step:<9} peak {bytes_:,} bytes, {bytes_ / engine:.2f} of the engine")


def peak(step: str, folder: Path, size: int) -> int:
    """Run a step in a process of its own, and return its peak resident memory in bytes."""
    command = [sys.executable, __file__, "--step", step, "--size", str(size), "--folder", str(folder)]
    ended = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return int(json.loads(ended.stdout.splitlines()[-1])["peak"])


def run_step(module: Any, params: dict[str, Any], inputs: dict[str, Path], outputs: dict[str, Path]) -> None:
    from modelbuild.step import Step

    module.run(Step(params, {name: (path,) for name, path in inputs.items()}, outputs, Path.cwd()))


def partition(folder: Path, size: int) -> None:
    import torch

    from modelbuild_rules.model.steps.exported.program import save_program
    from modelbuild_rules.program.steps import partition as step

    for name in ("program", "weights", "residual", "partitions"):
        (folder / name).mkdir()
    with torch.device("meta"):
        layer = torch.nn.Linear(size, size, bias=False)
    layer = layer.to_empty(device="cpu").eval()
    torch.manual_seed(0)
    with torch.no_grad():
        layer.weight.uniform_(-1, 1)
    save_program(torch.export.export(layer, (torch.ones(1, size),)), folder / "program", folder / "weights")
    del layer
    attributes = {
        "flavour": "rtx",
        "precision": "fp32",
        "min_block_size": 1,
        "exclude_ops": [],
        "fallback_data_dependent_ops": True,
        "optimization_profiles": [],
        "target_device": "cuda:0",
        "engine": None,
    }
    run_step(
        step,
        {
            "backends": [
                {
                    "kind": "tensorrt",
                    "partitioning": "modelbuild_rules.backends.tensorrt.steps.partitioning",
                    "attributes": attributes,
                }
            ],
            "external_weights": False,
        },
        {name: folder / name for name in ("program", "weights")},
        {name: folder / name for name in ("residual", "partitions", "plan", "report", "notes")},
    )


def compile(folder: Path, size: int) -> None:
    from modelbuild_rules.backends.tensorrt.steps import compile

    (folder / "compiled").mkdir()
    attributes = {
        "flavour": "rtx",
        "precision": "fp32",
        "workspace_size": 1 << 30,
        "fallback_data_dependent_ops": True,
        "compute_capabilities": ["8.9"],
        "gpu": 0,
        "platform": "linux_x86_64",
    }
    inputs = {"partition": folder / "partitions/p0"}
    run_step(compile, {"attributes": attributes}, inputs, {"compiled": folder / "compiled"})


def emit(folder: Path, size: int) -> None:
    from modelbuild_rules.program.steps import emit as step

    inputs = {"residual": folder / "residual", "report": folder / "report", "parts": folder / "compiled"}
    outputs = {"pte": folder / "model.pte", "delegation": folder / "delegation.json"}
    run_step(step, {"partitions": {"forward": ["p0"]}, "sidecars": {}}, inputs, outputs)


if __name__ == "__main__":
    main()
