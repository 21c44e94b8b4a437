"""Time tiles of the templates for convolutions and matrix products on a GPU.

    python benchmarks/gpu/cuda_tiles.py OUT/tiles.jsonl     # about 4 minutes

With a GPU, torch and Triton, it times each tile and number of parts (lowerings/products.py of the CUDA backend) on 63
products in float32, TF32 and float16, and cuDNN's convolution beside them. Its kernel does what the backend's template
does (lowerings/template.py). cuda_cost.py fits the cost model to the result.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import statistics
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import astuple
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "rules")]

from modelbuild_rules.backends.cuda.steps.generate.lowerings.products import SPLITS, TILES  # noqa: E402
from modelbuild_rules.backends.cuda.steps.kernels.cost import Product, Tile, fits  # noqa: E402
from modelbuild_rules.backends.cuda.steps.kernels.device import GPUS  # noqa: E402

GPU = GPUS[90]
KINDS = {"fp32": "tf32x3", "tf32": "tf32", "half": "ieee"}

# Batch, channels, height and width, outputs, kernel, stride, padding.
CONVOLUTIONS = [
    *[(1, 64, 56, 64, 3, 1, 1), (1, 128, 28, 128, 3, 1, 1), (1, 256, 14, 256, 3, 1, 1), (1, 512, 7, 512, 3, 1, 1)],
    *[(1, 128, 56, 128, 3, 2, 1), (1, 3, 224, 64, 7, 2, 3), (1, 3, 224, 32, 3, 2, 1), (1, 64, 96, 64, 3, 1, 1)],
    *[(1, 64, 192, 3, 3, 1, 1), (1, 64, 96, 256, 3, 1, 1), (1, 320, 64, 320, 3, 1, 1), (8, 128, 28, 128, 3, 1, 1)],
    *[(8, 512, 7, 512, 3, 1, 1), (1, 40, 56, 80, 2, 2, 0), (1, 24, 28, 48, 5, 1, 2), (1, 64, 160, 64, 3, 1, 1)],
    (1, 3, 224, 768, 16, 16, 0),
    *[(8, 320, 64, 320, 3, 1, 1), (8, 64, 56, 64, 3, 1, 1), (8, 256, 14, 256, 3, 1, 1)],
]
# Rows, depth, columns.
PRODUCTS = [
    *[(3136, 64, 256), (3136, 256, 64), (3136, 40, 160), (784, 512, 128), (784, 128, 512), (196, 1024, 256)],
    *[(196, 256, 1024), (196, 160, 640), (196, 640, 160), (49, 512, 2048), (49, 2048, 512), (49, 320, 1280)],
    *[(49, 1280, 320), (49, 96, 576), (49, 576, 96), (197, 768, 2304), (197, 768, 768), (197, 768, 3072)],
    *[(197, 3072, 768), (128, 768, 768), (128, 3072, 768), (128, 768, 3072), (1500, 384, 1536), (1500, 1536, 384)],
    *[(1500, 384, 384), (1576, 768, 3072), (1576, 3072, 768), (4096, 320, 960), (4096, 1280, 320), (8, 2048, 1000)],
    (4, 1024, 1000),
    *[
        (1576, 768, 2304),
        (1576, 768, 768),
        (32768, 320, 1280),
        (32768, 1280, 320),
        (32768, 320, 320),
        (1024, 768, 3072),
    ],
    *[(1024, 3072, 768), (12000, 384, 1536), (12000, 1536, 384), (12000, 384, 384), (25088, 96, 288), (6272, 768, 192)],
]
CASES = [*CONVOLUTIONS, *((rows, depth, 1, columns, 1, 1, 0) for rows, depth, columns in PRODUCTS)]

PRODUCT_TILES = tuple(
    Tile(*each)
    for each in (
        *[(64, 128, 128, 4, 4), (128, 128, 64, 8, 5), (128, 256, 64, 8, 4), (64, 64, 64, 8, 3), (64, 64, 128, 4, 5)],
        *[(64, 128, 32, 8, 4), (32, 64, 32, 8, 5), (64, 32, 128, 4, 5), (64, 64, 32, 4, 2), (32, 32, 128, 4, 2)],
    )
)
"""Some of the tiles of Inductor's template for matrix products."""

KERNEL = """
import triton
import triton.language as tl

@triton.jit
def kernel(X, W, Y, B, C, H, O, OH, sxn, sxc, sxh, sxw, swo, swi, swh, sww, K: tl.constexpr, S: tl.constexpr,
           P: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLIT: tl.constexpr,
           PRECISION: tl.constexpr, WHOLE: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    part = tl.program_id(2)
    h = (m // OH) % OH * S - P
    w = m % OH * S - P
    b = m // (OH * OH)
    inside = b < B
    TOGETHER: tl.constexpr = not WHOLE and K > 1
    of_tap = (C + BK - 1) // BK
    if TOGETHER:
        steps = (K * K * C + BK - 1) // BK
    else:
        steps = K * K * of_tap
    of_part = (steps + SPLIT - 1) // SPLIT
    x_base = X + b * sxn + h * sxh + w * sxw
    w_base = W + n * swo
    acc = tl.zeros((BM, BN), tl.float32)
    for step in range(part * of_part, tl.minimum(part * of_part + of_part, steps)):
        if TOGETHER:
            k = step * BK + tl.arange(0, BK)
            c = k % C
            tap = k // C
            i = tap // K
            j = tap % K
            ok = (
                inside[:, None]
                & (tap < K * K)[None, :]
                & ((h[:, None] + i[None, :]).to(tl.uint32) < H)
                & ((w[:, None] + j[None, :]).to(tl.uint32) < H)
            )
            x = tl.load(x_base[:, None] + (i * sxh + j * sxw + c * sxc)[None, :], mask=ok, other=0.0)
            v_mask = (n < O)[None, :] & (tap < K * K)[:, None]
            v = tl.load(w_base[None, :] + (c * swi + i * swh + j * sww)[:, None], mask=v_mask, other=0.0)
        else:
            c = (step % of_tap) * BK + tl.arange(0, BK)
            tap = step // of_tap
            i = tap // K
            j = tap % K
            ok = inside & ((h + i).to(tl.uint32) < H) & ((w + j).to(tl.uint32) < H)
            x_at = (x_base + i * sxh + j * sxw)[:, None] + (c * sxc)[None, :]
            v_at = (w_base + i * swh + j * sww)[None, :] + (c * swi)[:, None]
            if WHOLE:
                x = tl.load(x_at, mask=ok[:, None], other=0.0)
                v = tl.load(v_at, mask=(n < O)[None, :], other=0.0)
            else:
                x = tl.load(x_at, mask=ok[:, None] & (c < C)[None, :], other=0.0)
                v = tl.load(v_at, mask=(n < O)[None, :] & (c < C)[:, None], other=0.0)
        acc = tl.dot(x, v, acc, input_precision=PRECISION)
    at = part * B * OH * OH * O + m[:, None] * O + n[None, :]
    tl.store(Y + at, acc, mask=inside[:, None] & (n < O)[None, :])
"""


def length(case: tuple[int, ...]) -> int:
    _, _, size, _, taps, stride, padding = case
    return (size + 2 * padding - taps) // stride + 1


def product(case: tuple[int, ...], kind: str) -> Product:
    batch, channels, _, outputs, taps, _, _ = case
    rows = batch * length(case) ** 2
    return Product(rows, outputs, channels, taps=taps * taps, bytes=2 if kind == "half" else 4, tf32=kind == "tf32")


def timed(call: Any) -> float:
    """Return the median microseconds of a call, of 20 in a CUDA graph."""
    import torch

    for _ in range(2):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(20):
            call()
    graph.replay()
    times = []
    for _ in range(5):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1000 / 20)
    return statistics.median(times)


def measure(case: tuple[int, ...], kind: str) -> dict[str, Any]:
    """Return the times of all tiles and parts for a product, with their errors relative to float64."""
    import fcntl
    import importlib.util

    import torch

    with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as file:
        file.write(KERNEL)
    spec = importlib.util.spec_from_file_location("tiles_kernel", file.name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    torch.backends.cudnn.allow_tf32, torch.backends.cudnn.benchmark = kind == "tf32", True
    batch, channels, size, outputs, taps, stride, padding = case
    dtype = torch.float16 if kind == "half" else torch.float32
    torch.manual_seed(0)
    x = torch.randn(batch, channels, size, size, device="cuda").to(dtype).to(memory_format=torch.channels_last)
    w = torch.randn(outputs, channels, taps, taps, device="cuda") / math.sqrt(channels * taps * taps)
    w = w.to(dtype).to(memory_format=torch.channels_last)
    exact = torch.nn.functional.conv2d(x.double(), w.double(), stride=stride, padding=padding).permute(0, 2, 3, 1)
    y = torch.zeros(SPLITS[-1] * exact.numel(), device="cuda")
    asked, rows = product(case, kind), []
    with Path(tempfile.gettempdir(), "tiles.lock").open("w") as lock:  # compile in parallel, time one by one
        for tile in [tile for tile in (*TILES, *PRODUCT_TILES) if fits(tile, asked, GPU)] or TILES[:1]:
            blocks = math.ceil(asked.rows / tile.rows) * math.ceil(asked.columns / tile.columns)
            for split in SPLITS:
                few = blocks <= 2 * GPU.processors and 2 * split <= tile.steps(asked) and tile in TILES
                if split > 1 and not few:
                    continue

                def call(tile: Tile = tile, split: int = split, blocks: int = blocks) -> Any:
                    grid = (math.ceil(asked.rows / tile.rows), math.ceil(asked.columns / tile.columns), split)
                    sizes = (batch, channels, size, outputs, length(case), *x.stride(), *w.stride())
                    constants = (taps, stride, padding, tile.rows, tile.columns, tile.depth, split, KINDS[kind])
                    options = {"num_warps": tile.warps, "num_stages": tile.stages}
                    return module.kernel[grid](x, w, y, *sizes, *constants, channels % tile.depth == 0, **options)

                try:
                    kernel = call()
                    torch.cuda.synchronize()
                except Exception as error:  # a tile that does not compile
                    print(case, kind, tile, repr(error)[:100], flush=True)
                    continue
                fcntl.flock(lock, fcntl.LOCK_EX)
                took = timed(call)
                fcntl.flock(lock, fcntl.LOCK_UN)
                got = y[: split * exact.numel()].view(split, *exact.shape).double().sum(0)
                error = float((got - exact).norm() / exact.norm())
                rows.append([round(took, 2), astuple(tile), split, error, kernel.n_regs, kernel.n_spills])
        fcntl.flock(lock, fcntl.LOCK_EX)
        library = timed(lambda: torch.nn.functional.conv2d(x, w, stride=stride, padding=padding))
        fcntl.flock(lock, fcntl.LOCK_UN)
    made = torch.nn.functional.conv2d(x, w, stride=stride, padding=padding).permute(0, 2, 3, 1)
    error = float((made.double() - exact).norm() / exact.norm())
    return {"case": case, "kind": kind, "rows": sorted(rows), "cudnn": [round(library, 2), error]}


def run(out: Path) -> None:
    jobs = [(case, kind) for kind in KINDS for case in CASES]
    with ProcessPoolExecutor(14, mp_context=multiprocessing.get_context("spawn")) as pool, out.open("w") as file:
        for result in pool.map(measure, *zip(*jobs, strict=True)):
            file.write(json.dumps(result) + "\n")
            file.flush()
            print(result["case"], result["kind"], "best", result["rows"][0], "cuDNN", result["cudnn"], flush=True)


if __name__ == "__main__":
    run(Path(sys.argv[1]))
