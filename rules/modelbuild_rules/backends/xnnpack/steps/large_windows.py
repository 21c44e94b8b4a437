"""Compute depthwise convolutions that have no kernel as sums of depthwise convolutions that have one.

XNNPACK computes a window of more than 25 taps, such as the 7 x 7 of ConvNeXt, as many convolutions of one channel,
which takes ten times as long. For a smaller window it uses the kernel of the next size, which multiplies pixels outside
of the window by 0, so that NaN spreads. The parts cover the window exactly.

Private names of executorch are used; executorch_xnnpack_private.py lists them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import torch
from executorch.backends.xnnpack.utils.utils import get_param_tensor
from executorch.exir.dialects._ops import ops
from torch.export import ExportedProgram

from modelbuild_rules.backends.xnnpack.steps.nonfinite import WINDOWS
from modelbuild_rules.backends.xnnpack.steps.shared_values import add_constant, constants

edge = ops.edge.aten


class Part(NamedTuple):
    """A part of a window: its first row and column, and its size."""

    row: int
    column: int
    height: int
    width: int


def with_small_windows(program: ExportedProgram) -> None:
    """Replace these convolutions of a partition, in place. Each reader of a constant must have its own copy."""
    known = constants(program)
    for node in list(program.graph.find_nodes(op="call_function", target=edge.convolution.default)):
        found = parts_of(node) if node.args[1].name in known else None
        if found is not None:
            node.replace_all_uses_with(_sum(program, node, found))
            program.graph.erase_node(node)
    program.graph_module.recompile()


def parts_of(node: torch.fx.Node) -> tuple[Part, ...] | None:
    """Return the parts of the window of a depthwise convolution of float32 images of known size; None for others, and
    for a window that has a kernel, or no parts with kernels."""
    x, weight, _, _, _, _, transposed, _, groups = node.args
    values, shape = x.meta["val"], weight.meta["val"].shape
    if transposed or groups == 1 or list(shape[:2]) != [groups, 1] or values.dtype != torch.float32:
        return None
    # Slices of XNNPACK have one size in all calls.
    known = values.dim() == 4 and all(isinstance(size, int) for size in values.shape)
    return parts(*shape[2:]) if known and math.prod(shape[2:]) not in WINDOWS else None


@cache
def parts(height: int, width: int) -> tuple[Part, ...] | None:
    """Return the fewest parts that have kernels and cover a window, cut again and again in two; None if there are
    none."""
    if height * width in WINDOWS:
        return (Part(0, 0, height, width),)
    found = [cut for cut in _cuts(height, width) if cut is not None]
    return min(found, key=len, default=None)


def _cuts(height: int, width: int) -> Iterator[tuple[Part, ...] | None]:
    for at in range(1, height):
        yield _joined(parts(at, width), parts(height - at, width), at, 0)
    for at in range(1, width):
        yield _joined(parts(height, at), parts(height, width - at), 0, at)


def _joined(
    one: tuple[Part, ...] | None, other: tuple[Part, ...] | None, row: int, column: int
) -> tuple[Part, ...] | None:
    if one is None or other is None:
        return None
    return (*one, *(Part(each.row + row, each.column + column, each.height, each.width) for each in other))


def _sum(program: ExportedProgram, node: torch.fx.Node, found: tuple[Part, ...]) -> torch.fx.Node:
    x, weight, bias, stride, padding, dilation, *_, groups = node.args
    data = get_param_tensor(program, weight)
    assert data is not None
    if any(padding):
        around = [padding[1], padding[1], padding[0], padding[0]]
        x = _call(program, node, edge.constant_pad_nd.default, x, around, 0.0)
    total = None
    for number, part in enumerate(found):
        own = data.detach()[:, :, part.row : part.row + part.height, part.column : part.column + part.width]
        weights = add_constant(program, f"{node.name}_part_{number}", own.clone(memory_format=torch.contiguous_format))
        pixels = x
        places = ((part.row, part.height), (part.column, part.width))
        for dim, (first, taps), step, apart in zip((2, 3), places, stride, dilation, strict=True):
            begin = first * apart
            end = begin + (node.meta["val"].shape[dim] - 1) * step + apart * (taps - 1) + 1
            if end - begin < pixels.meta["val"].shape[dim]:
                pixels = _call(program, node, edge.slice_copy.Tensor, pixels, dim, begin, end)
        more = (stride, [0, 0], dilation, False, [0, 0], groups)
        made = _call(program, node, edge.convolution.default, pixels, weights, None if total else bias, *more)
        total = _call(program, node, edge.add.Tensor, total, made) if total else made
    assert total is not None
    return total


def _call(program: ExportedProgram, node: torch.fx.Node, target: Any, *args: Any) -> torch.fx.Node:
    """Add a call before a node."""
    with program.graph.inserting_before(node):
        made = program.graph.call_function(target, args)
    values = torch.fx.node.map_arg(args, lambda each: each.meta["val"])
    made.meta = {**node.meta, "val": target(*values)}
    made.meta.pop("tensor_meta", None)
    return made
