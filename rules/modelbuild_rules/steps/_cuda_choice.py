"""Chooses among the templates of a matrix product or convolution without timing them.

The cost of a template is that of its tiles: how many waves of them the multiprocessors need, times the work and memory
traffic of one. From the cheapest on, the first is taken that compiles for the GPU, fits its shared memory and spills no
registers. When each of the cheapest few spills, the first of them is taken.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from modelbuild_rules.steps._cuda_device import Gpu

TRIED = 6
_REUSE = 24  # cost of bringing in an element, in multiplications
_START = 8  # cost of a loop's beginning, in elements of its depth


def choose(candidates: Sequence[Any], gpu: Gpu) -> Any:
    """One of Inductor's ChoiceCallers."""
    from torch._inductor.select_algorithm import TritonTemplateCaller

    templates = [candidate for candidate in candidates if isinstance(candidate, TritonTemplateCaller)]
    if not templates:
        return candidates[0]
    rows, columns = _extent(candidates[0])
    ranked = sorted(templates, key=lambda each: (cost(tile(each.log_info), rows, columns, gpu), each.name))
    spilling = None
    for template in ranked[:TRIED]:
        try:
            template.precompile()
        except Exception:  # Triton, LLVM and ptxas have each their own; the next template is tried
            continue
        if not _spills(template):
            return template
        spilling = spilling or template
    return spilling or ranked[0]


def tile(info: Any) -> tuple[int, int, int, int, int]:
    """Rows, columns and depth of a template's tile, its warps and stages."""
    shape = info.get("tile_shape")
    if shape:
        rows, depth, columns = (int(part) for part in str(shape).strip("()").split(","))
    else:
        usual = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32}
        rows, columns, depth = (int(info.get(name, size)) for name, size in usual.items())
    return rows, columns, depth, int(info.get("num_warps") or 4), int(info.get("num_stages") or 1)


def cost(tile: tuple[int, int, int, int, int], rows: int, columns: int, gpu: Gpu) -> tuple[float, int]:
    """Of computing a result of `rows` x `columns`; among equals, more stages are better."""
    height, width, depth, warps, stages = tile
    tiles = math.ceil(rows / height) * math.ceil(columns / width)
    waves = math.ceil(tiles / gpu.processors)
    work = height * width * (1 + _REUSE * (1 / height + 1 / width)) * (1 + _START / depth)
    # 512 elements of the result are what a warp holds well.
    balance = 1 + abs(math.log2(max(height * width / (warps * 512), 1 / 8)))
    return waves * work * balance, -stages


def _extent(candidate: Any) -> tuple[int, int]:
    """Rows and columns of the result as a matrix; of a convolution's, rows are places and columns are channels."""
    from torch._inductor.virtualized import V

    *outer, last = (int(V.graph.sizevars.optimization_hint(size)) for size in candidate.layout.size)
    if len(outer) == 3:
        return outer[0] * outer[2] * last, outer[1]
    return math.prod(outer), last


def _spills(template: Any) -> bool:
    module = getattr(template.bmreq, "_benchmark_module", None)
    kernel = getattr(module, template.bmreq.kernel_name) if module else None
    return any(launcher.n_spills for launcher in kernel.launchers) if kernel else False
