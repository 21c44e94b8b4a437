"""Time tiles of the attention kernel on a GPU, beside torch's attention, and compare results with float64.

    python benchmarks/gpu/cuda_attention.py OUT

It writes a line for each shape, type and tile to OUT/attention.jsonl, and prints for each shape the fastest tile, the
tile that `tile()` chooses, and torch. It needs a Python with torch and Triton, and this repository.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

FILE = Path(__file__).parents[2] / "rules/modelbuild_rules/backends/cuda/steps/generate/lowerings/attention.py"
PROCESSORS, SHARED_MEMORY = 132, 227 << 10  # of compute capability 9.0

# Batch, heads, queries, keys, size, size of values, causal, mask.
SHAPES = {
    "vit_b": (1, 12, 197, 197, 64, 64, False, None),
    "vit_tiny": (1, 3, 197, 197, 64, 64, False, None),
    "vit_b of 8": (8, 12, 197, 197, 64, 64, False, None),
    "bert": (1, 12, 128, 128, 64, 64, False, None),
    "whisper": (1, 6, 1500, 1500, 64, 64, False, None),
    "whisper of 8": (8, 6, 1500, 1500, 64, 64, False, None),
    "unet": (1, 8, 4096, 4096, 40, 40, False, None),
    "unet of 8": (8, 8, 4096, 4096, 40, 40, False, None),
    "swin": (64, 3, 49, 49, 32, 32, False, "add"),
    "padded": (2, 8, 300, 300, 64, 64, False, "select"),
    "prefill": (1, 16, 512, 512, 128, 128, True, None),
    "long": (1, 16, 2048, 2048, 64, 64, True, None),
    "detr": (1, 8, 100, 850, 32, 32, False, None),
}
TILES = [
    *[(16, 32, 1, 3), (16, 64, 1, 3), (16, 64, 2, 3), (16, 128, 4, 2), (32, 32, 2, 3), (32, 64, 2, 3), (32, 64, 4, 2)],
    *[(64, 32, 4, 3), (64, 64, 4, 2), (64, 64, 4, 3), (64, 128, 4, 2), (128, 32, 8, 3), (128, 64, 8, 3)],
    *[(128, 64, 4, 3), (128, 128, 8, 2), (128, 128, 8, 3), (64, 128, 4, 3), (128, 64, 8, 2), (256, 64, 8, 3)],
]


DTYPES = ("float16", "float32", "bfloat16")


def main(out: Path) -> None:
    """Compile in parallel, then time one shape after the other."""
    cases = [(name, dtype) for name in SHAPES for dtype in DTYPES]
    command = [sys.executable, __file__, "case"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen([*command, *case], **pipes) for case in cases]
    for process in processes:
        process.stdout.readline()
    with (out / "attention.jsonl").open("w") as file:
        for process in processes:
            text, _ = process.communicate("go\n", 120)
            for line in text.splitlines():
                (file.write if line.startswith("{") else print)(f"{line}\n" if line.startswith("{") else line)


def case(name: str, kind: str) -> None:
    """Compile each tile, print "ready", wait for a line, and print the times."""
    os.environ["TRITON_F32_DEFAULT"] = "tf32x3"
    import torch
    from triton.testing import do_bench_cudagraph

    spec = importlib.util.spec_from_file_location("attention", FILE)
    assert spec is not None
    assert spec.loader is not None
    sys.modules["attention"] = attention = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(attention)
    kernel, dtype = torch.ops.modelbuild.attention.default, getattr(torch, kind)
    batch, heads, queries, keys, size, values, causal, masked = SHAPES[name]
    torch.manual_seed(0)
    q, k, v = (
        torch.randn(batch, rows, heads, columns, device="cuda", dtype=dtype).transpose(1, 2)
        for rows, columns in ((queries, size), (keys, size), (keys, values))
    )
    mask = None if masked is None else torch.rand(batch, 1, queries, keys, device="cuda") < 0.7
    mask = mask.to(dtype) if masked == "add" and mask is not None else mask
    plain = functools.partial(torch.nn.functional.scaled_dot_product_attention, is_causal=causal)
    doubles = [each.double() for each in (q, k, v)]
    exact = plain(*doubles, mask if mask is None or mask.dtype == torch.bool else mask.double())
    peer = plain(q, k, v, mask)
    fitting = [each for each in TILES if each[0] < 2 * max(queries, 16) and each[1] < 2 * max(keys, 16)]
    errors = {}
    for tile in fitting:
        try:
            errors[tile] = float((kernel(q, k, v, mask, causal, size**-0.5, *tile).double() - exact).abs().max())
        except Exception as problem:  # too much shared memory
            print(name, dtype, tile, repr(problem)[:100], file=sys.stderr, flush=True)
    torch.cuda.synchronize()
    print("ready", flush=True)
    sys.stdin.readline()
    peer_us = 1e3 * do_bench_cudagraph(lambda: plain(q, k, v, mask), rep=10)
    found = []
    for tile, error in errors.items():
        call = functools.partial(kernel, q, k, v, mask, causal, size**-0.5, *tile)
        found.append((1e3 * do_bench_cudagraph(call, rep=10), tile, error))
    found.sort()
    peer_error = float((peer.double() - exact).abs().max())
    print(json.dumps({"shape": name, "dtype": kind, "torch": peer_us, "torch_error": peer_error, "tiles": found}))
    chosen = attention.tile_of(
        batch * heads, queries, keys, max(size, values), dtype.itemsize, PROCESSORS, SHARED_MEMORY
    )
    took = [round(us, 1) for us, tile, _ in found if tile == chosen]
    worst = max(error for *_, error in found)
    print(
        f"{name} {kind}: best {found[0][0]:.1f} us {found[0][1]}, chosen {took} {chosen}, torch {peer_us:.1f} us;"
        f" error {worst:.1e}, torch's {peer_error:.1e}"
    )


if __name__ == "__main__":
    case(*sys.argv[2:]) if sys.argv[1] == "case" else main(Path(sys.argv[1]))
