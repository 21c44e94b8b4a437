"""Compile convolutions of two dimensions and small matrix products to a template that can split their depth.

The cheapest tile by estimated cost determines the number of parts. Uses private parts of torch; target_gpu.py applies
the lowerings, and lists the versions that they were checked on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from modelbuild_rules.backends.cuda.steps.generate.lowerings.template import template
from modelbuild_rules.backends.cuda.steps.kernels.cost import Product, Tile, cost, fits
from modelbuild_rules.backends.cuda.steps.kernels.device import Gpu

aten = torch.ops.aten

TILES = tuple(
    Tile(*each)
    for each in (
        (16, 32, 64, 2, 4),
        (16, 64, 64, 4, 4),
        (16, 128, 32, 4, 4),
        (32, 32, 32, 4, 4),
        (32, 32, 64, 4, 4),
        (32, 64, 32, 4, 4),
        (32, 64, 64, 4, 4),
        (64, 32, 32, 4, 4),
        (64, 64, 32, 4, 4),
        (64, 64, 64, 4, 3),
        (64, 128, 32, 4, 4),
        (128, 64, 32, 8, 4),
        (128, 64, 32, 4, 4),
        (128, 128, 32, 8, 3),
        (64, 128, 64, 4, 3),
        (128, 128, 64, 4, 3),
        (128, 128, 64, 8, 3),
    )
)

SPLITS = (1, 2, 4, 8, 16)
CANDIDATES = 8
"""The number of cheapest tiles to choose from."""


def lowerings(original: Mapping[Any, Callable[..., Any]], gpu: Gpu, tf32: bool) -> dict[Any, Callable[..., Any]]:
    """Return replacements of Inductor's lowerings, by operator, for the target GPU. `tf32`: use TF32 for float32."""
    plain = {op: original[op] for op in (aten.convolution.default, aten.mm.default, aten.addmm.default)}

    def convolution(
        x: Any,
        weight: Any,
        bias: Any,
        stride: Sequence[Any],
        padding: Sequence[Any],
        dilation: Sequence[Any],
        transposed: bool,
        output_padding: Sequence[Any],
        groups: int,
    ) -> Any:
        from torch._inductor.lowering import lowerings as known

        arguments = (stride, padding, dilation, transposed, output_padding, groups)
        if transposed or len(x.get_size()) != 4 or not _matching(x, weight, groups) or _guarded(dilation, 2) != [1, 1]:
            return plain[aten.convolution.default](x, weight, bias, *arguments)
        if patches := _patches(x, weight, _guarded(stride, 2), _guarded(padding, 2), groups):
            made = _unflattened(mm(*patches), x, weight)
        else:
            made = _convolution(x, weight, _guarded(stride, 2), _guarded(padding, 2), groups, gpu, tf32)
        return made if bias is None else known[aten.add.Tensor](made, known[aten.view.default](bias, [-1, 1, 1]))

    def mm(x: Any, weight: Any, **options: Any) -> Any:
        made = None if options else _product(x, weight, gpu, tf32)
        return plain[aten.mm.default](x, weight, **options) if made is None else made

    def addmm(bias: Any, x: Any, weight: Any, *, beta: Any = 1, alpha: Any = 1, **options: Any) -> Any:
        from torch._inductor.lowering import lowerings as known

        made = None if options or (beta, alpha) != (1, 1) else _product(x, weight, gpu, tf32)
        if made is None:
            return plain[aten.addmm.default](bias, x, weight, beta=beta, alpha=alpha, **options)
        return known[aten.add.Tensor](made, bias)

    return {aten.convolution.default: convolution, aten.mm.default: mm, aten.addmm.default: addmm}


def _guarded(values: Sequence[Any], dims: int) -> list[int]:
    from torch._inductor.virtualized import V

    return [*V.graph.sizevars.guard_int_seq([*values] * (dims if len(values) == 1 else 1))]


def _matching(x: Any, weight: Any, groups: int) -> bool:
    from torch._inductor.virtualized import V

    channels = weight.get_size()[1] * groups
    return bool(V.graph.sizevars.statically_known_equals(channels, x.get_size()[1]))


def _patches(x: Any, weight: Any, stride: Sequence[int], padding: Sequence[int], groups: int) -> tuple[Any, Any] | None:
    """Return the patches of x and the weight of a convolution as two matrices whose product is its result; None if
    patches overlap or lack an edge, or have so many channels that the template reads whole tiles of them.

    In a ViT's first layer, each block of the template would compute two remainders for each element that it reads. The
    copy of the patches is a separate kernel, so the product avoids these remainders.
    """
    from torch._inductor import ir
    from torch._inductor.lowering import lowerings as known
    from torch._inductor.virtualized import V

    batch, channels, *sizes = x.get_size()
    outputs, depth, *kernel = _guarded(weight.get_size(), 4)
    if groups != 1 or depth % 16 == 0 or kernel != stride or any(padding) or math.prod(kernel) == 1:
        return None
    if not _static(*sizes) or any(int(size) % taps for size, taps in zip(sizes, kernel, strict=True)):
        return None
    (height, width), (rows, columns) = kernel, _counts(x, weight)
    x = known[aten.permute.default](x, [0, 2, 3, 1])
    x = known[aten.view.default](x, [batch, rows, height, columns, width, channels])
    x = known[aten.permute.default](x, [0, 1, 3, 2, 4, 5])
    weight = known[aten.permute.default](weight, [2, 3, 1, 0])
    deep = height * width * depth
    copied = ir.ExternKernel.realize_input(known[aten.view.default](x, [batch * rows * columns, deep]))
    V.graph.no_fuse_buffer_names.add(copied.get_name())
    return copied, known[aten.view.default](weight, [deep, outputs])


def _counts(x: Any, weight: Any) -> list[int]:
    """Return the number of patches in each direction."""
    return [int(n) // int(taps) for n, taps in zip(x.get_size()[2:], weight.get_size()[2:], strict=True)]


def _unflattened(made: Any, x: Any, weight: Any) -> Any:
    """Return the product of patches as the convolution's result."""
    from torch._inductor.lowering import lowerings as known

    made = known[aten.view.default](made, [x.get_size()[0], *_counts(x, weight), weight.get_size()[0]])
    return known[aten.permute.default](made, [0, 3, 1, 2])


def _convolution(
    x: Any, weight: Any, stride: Sequence[int], padding: Sequence[int], groups: int, gpu: Gpu, tf32: bool
) -> Any:
    """Return the convolution of x, [batch, channels, height, width], without a bias, in the channels-last format."""
    from torch._inductor import ir
    from torch._inductor.lowering import lowerings as known
    from torch._inductor.virtualized import V
    from torch.utils._sympy.functions import FloorDiv

    x.realize()
    weight.realize()
    x, weight = ir.ExternKernel.require_channels_last(x), ir.ExternKernel.require_channels_last(weight)
    outputs, depth, *kernel = _guarded(weight.get_size(), 4)
    batch, _, *sizes = x.get_size()
    lengths = [
        FloorDiv(size + 2 * pad - taps, step) + 1
        for size, taps, step, pad in zip(sizes, kernel, stride, padding, strict=True)
    ]
    options = {
        "KERNEL_H": kernel[0],
        "KERNEL_W": kernel[1],
        "STRIDE_H": stride[0],
        "STRIDE_W": stride[1],
        "PADDING_H": padding[0],
        "PADDING_W": padding[1],
        "GROUPS": groups,
    }
    rows = math.prod(int(V.graph.sizevars.optimization_hint(size)) for size in (batch, *lengths))  # of example inputs
    taps, float32 = math.prod(kernel), x.get_dtype() == torch.float32
    product = Product(rows, outputs // groups, depth, groups, taps, x.get_dtype().itemsize, tf32 and float32)
    split, tiles = _tiles(product, gpu)
    made = _made(x, weight, [math.prod((batch, *lengths)), outputs], options, split, tiles, tf32)
    made = known[aten.view.default](made, [batch, *lengths, outputs])
    return known[aten.permute.default](made, [0, 3, 1, 2])


def _product(x: Any, weight: Any, gpu: Gpu, tf32: bool) -> Any:
    """Return x, [rows, depth], times weight, [depth, columns]; None if splitting the depth gains nothing."""
    from torch._inductor import ir
    from torch._inductor.lowering import lowerings as known
    from torch._inductor.virtualized import V

    rows, depth = x.get_size()
    columns = weight.get_size()[1]
    if x.get_dtype() not in (torch.float32, torch.float16, torch.bfloat16) or not _static(depth, columns):
        return None
    hint = int(V.graph.sizevars.optimization_hint(rows))  # of example inputs, or the bound of a count
    product = Product(
        hint, int(columns), int(depth), bytes=x.get_dtype().itemsize, tf32=tf32 and x.get_dtype() == torch.float32
    )
    split, tiles = _tiles(product, gpu)
    if split == 1:
        return None
    weight = known[aten.permute.default](weight, [1, 0])
    for dim in (2, 3):
        x, weight = (known[aten.unsqueeze.default](each, dim) for each in (x, weight))
    x, weight = (ir.ExternKernel.realize_input(each) for each in (x, weight))
    options = {"KERNEL_H": 1, "KERNEL_W": 1, "STRIDE_H": 1, "STRIDE_W": 1, "PADDING_H": 0, "PADDING_W": 0, "GROUPS": 1}
    return _made(x, weight, [rows, columns], options, split, tiles, tf32)


def _static(*sizes: Any) -> bool:
    return all(getattr(size, "is_number", True) and size > 0 for size in sizes)


def _tiles(product: Product, gpu: Gpu) -> tuple[int, list[Tile]]:
    """Return the number of parts of the cheapest tile, and the cheapest tiles for that number."""
    fitting = [tile for tile in TILES if fits(tile, product, gpu)] or [TILES[0]]
    costs = {
        (cost(tile, product, gpu, split), split, n): tile
        for n, tile in enumerate(fitting)
        for split in SPLITS
        if split == 1 or 2 * split <= tile.steps(product)
    }
    _, split, _ = min(costs)
    return split, [costs[each] for each in sorted(costs) if each[1] == split][:CANDIDATES]


def _made(
    x: Any,
    weight: Any,
    output: Sequence[Any],
    options: Mapping[str, int],
    split: int,
    tiles: Sequence[Tile],
    tf32: bool,
) -> Any:
    """Return an output of the template, [positions, outputs]."""
    from torch._inductor import ir
    from torch._inductor.select_algorithm import autotune_select_algorithm

    dtype = torch.float32 if split > 1 else x.get_dtype()
    layout = ir.FixedLayout(x.get_device(), dtype, [split, *output] if split > 1 else [*output])
    depth, taps = int(weight.get_size()[1]), options["KERNEL_H"] * options["KERNEL_W"]
    choices: list[Any] = []
    for tile in tiles:
        template().maybe_append_choice(
            choices,
            input_nodes=(x, weight),
            layout=layout,
            num_stages=tile.stages,
            num_warps=tile.warps,
            BLOCK_M=tile.rows,
            BLOCK_N=tile.columns,
            BLOCK_K=tile.depth,
            ALLOW_TF32=tf32,
            SPLIT=split,
            WHOLE=depth % tile.depth == 0,
            TOGETHER=depth % tile.depth != 0 and taps > 1,
            **options,
        )
    made, _ = autotune_select_algorithm(template().name, choices, [x, weight], layout)
    return made if split == 1 else _sum(made, x.get_dtype())


def _sum(parts: Any, dtype: torch.dtype) -> Any:
    """Return the sum over the first dimension, in a loop that Inductor can fuse with what follows."""
    from torch._inductor.ir import Pointwise
    from torch._inductor.virtualized import ops

    count, *sizes = parts.get_size()
    load = parts.make_loader()

    def total(index: Sequence[Any]) -> Any:
        value = load([0, *index])
        for part in range(1, int(count)):
            value = ops.add(value, load([part, *index]))
        return ops.to_dtype(value, dtype)

    made = Pointwise.create(device=parts.get_device(), dtype=dtype, inner_fn=total, ranges=sizes)
    made.realize()
    return made
