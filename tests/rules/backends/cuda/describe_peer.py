"""Generate the kernels of a model of benchmarks/gpu/peers for compute capability 9.0: `describe_peer.py MODEL:PRECISION
FOLDER` prints what they are (test_cuda_recorded.py). FOLDER is a new folder to lower in."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from modelbuild_rules.backend_api.steps.partition_files import read_partition
from modelbuild_rules.backends.cuda.steps.generate.generate import Generated, generate
from modelbuild_rules.backends.cuda.steps.kernels.compiler import compile_kernel, triton_compiler
from modelbuild_rules.backends.cuda.steps.kernels.device import common_gpu
from modelbuild_rules.backends.cuda.steps.kernels.request import Request
from tests.rules.backends.cuda.conftest import CUDA, PORTABLE, load, lower
from tests.rules.backends.cuda.emulator.kernel_facts import kernel_facts

PEERS = Path(__file__).parents[4] / "benchmarks/gpu/peers/peer_models.py"
KINDS = {"poi": "pointwise", "per": "reduction", "red": "reduction", "tem": "template"}
TILE = re.compile(r"^    (BLOCK_[MNK]|SPLIT) : tl\.constexpr = (\d+)$", re.MULTILINE)
CALL = re.compile(r"^ +call_(\w+)\(", re.MULTILINE)
SIZES = re.compile(r"constexpr int64_t (int_array_\d+)\[\] = \{(.*?)\};")
BUFFER = re.compile(r"aoti_torch_empty_strided\(\d+, (\w+), (\w+), cached_torch_dtype_(\w+),")
VALUE = re.compile(r"^ +tmp\d+ = (?!tl\.load)", re.MULTILINE)


def described(kernel: dict[str, Any], source: str) -> str:
    """Return a kernel's kind, its tile, warps, and bytes of registers that are spilled."""
    name = kernel["name"]
    kind = KINDS[name.split("_")[1]] if name.startswith("triton_") else name.rstrip("0123456789").rstrip("_")
    sizes = {**dict(TILE.findall(source)), **kernel["constants"]}
    tile = "".join(f" {key} {sizes[key]}" for key in ("BLOCK_M", "BLOCK_N", "BLOCK_K", "SPLIT") if key in sizes)
    if kind == "pointwise" and not VALUE.search(source):
        kind = "copy"
    return f"{kind}{tile} warps {kernel['warps']} spilled {kernel['spilled']}"


def allocated(source: str) -> int:
    """Return the bytes of all buffers that a program allocates, of which some are reused."""
    sizes = {name: [int(each.strip().rstrip("L")) for each in text.split(",")] for name, text in SIZES.findall(source)}
    total = 0
    for shape, strides, dtype in BUFFER.findall(source):
        elements = 1 + sum((n - 1) * step for n, step in zip(sizes[shape], sizes[strides], strict=True))
        total += elements * getattr(torch, dtype).itemsize
    return total


def spilled(request: Request) -> int:
    """Return the bytes of registers that a kernel spills."""
    gpu = common_gpu([request.capability])
    with TemporaryDirectory() as work, triton_compiler(gpu, request.products, Path(work)):
        return compile_kernel(request, Path(work)).usage.spilled


def facts(made: Generated) -> dict[str, Any]:
    """Return the number of launches, of all and by description, and the bytes of intermediate values."""
    kinds = {
        kernel.name: described(
            {**kernel_facts(kernel.request), "name": kernel.name, "spilled": spilled(kernel.request)},
            kernel.request.source,
        )
        for kernel in made.kernels
    }
    launches = Counter(kinds[name] for name in CALL.findall(made.source))
    found = {"kernels": len(kinds), "launches": launches.total(), "intermediate_bytes": allocated(made.source)}
    return {**found, "launched": dict(sorted(launches.items()))}


def main(case: str, folder: Path) -> None:
    peers: Any = load(PEERS)
    model, precision = case.split(":")
    module = peers.make(model, precision, constant=False)
    program = torch.export.export(module, (peers.inputs(model, 1),), strict=False)
    lowered = lower(program, [CUDA, PORTABLE], folder)
    found = []
    for part in lowered.plan:
        partition, specs = read_partition(lowered.folder / "partitions" / part["id"])
        assert part["kind"] == "cuda"
        found.append(facts(generate(partition, specs, [90], "tf32" if precision == "tf32" else "fp32")))
    (only,) = found  # the whole model is one library
    print(json.dumps(only))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
