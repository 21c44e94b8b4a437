"""Compute depthwise convolutions that have no kernel as sums of depthwise convolutions that have one.

XNNPACK computes a window of more than 25 taps, such as the 7 x 7 of ConvNeXt, as many convolutions of one channel,
which takes ten times as long. For a smaller window it uses the kernel of the next size, which multiplies pixels outside
of the window by 0, so that NaN spreads. The parts cover the window exactly.

Private names of executorch are used; executorch_xnnpack_private.py lists them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import torch
from executorch.backends.xnnpack.utils.utils import get_param_tensor
from executorch.exir.dialects._ops import ops
from torch.export import ExportedProgram

from modelbuild_rules.backends.xnnpack.steps.nonfinite import WINDOWS
from modelbuild_rules.backends.xnnpack.steps.shared_values import add_constant, constants

edge = ops.edge.aten


class Taps(NamedTuple):
    """Rows, or columns, of a window: the first, their number, and the distance between two."""

    first: int
    number: int
    apart: int = 1

    @property
    def places(self) -> range:
        return range(self.first, self.first + (self.number - 1) * self.apart + 1, self.apart)

    def after(self, rows: int) -> Taps:
        return self._replace(first=self.first + rows)


class Part(NamedTuple):
    """A part of a window: its rows and columns."""

    rows: Taps
    columns: Taps

    def taps(self) -> set[tuple[int, int]]:
        """Return the row and column in the window of each tap."""
        return set(product(self.rows.places, self.columns.places))


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
    """Return the fewest parts that have kernels and cover a window; None if there are none. Each tap is in one part,
    except for the middle of a window of odd size, which may be in several."""
    return min(filter(None, (_centered(height, width), _cut(height, width))), key=len, default=None)


def _centered(height: int, width: int) -> tuple[Part, ...] | None:
    """Return parts that have the same middle as the window, the largest first. Their convolutions read the image
    itself, with less padding, and slice nothing."""
    each = [Part(*taps) for taps in product(_symmetric(height), _symmetric(width))]
    each = [part for part in each if part.rows.number * part.columns.number in WINDOWS]
    found, left = [], set(product(range(height), range(width)))
    middle = {((height - 1) / 2, (width - 1) / 2)}
    for part in sorted(each, key=lambda part: -part.rows.number * part.columns.number):
        if part.taps() - middle <= left and part.taps() & left:
            found.append(part)
            left -= part.taps()
    return None if left else tuple(found)


def _symmetric(size: int) -> Iterator[Taps]:
    """Yield the taps that lie evenly around the middle of a window's height or width."""
    for number, apart in product(range(1, size + 1), range(1, size)):
        first, uneven = divmod(size - 1 - (number - 1) * apart, 2)
        if first >= 0 and not uneven and (number > 1 or apart == 1):
            yield Taps(first, number, apart)


@cache
def _cut(height: int, width: int) -> tuple[Part, ...] | None:
    """Return the fewest parts by cutting the window again and again in two."""
    if height * width in WINDOWS:
        return (Part(Taps(0, height), Taps(0, width)),)
    found = [cut for cut in _cuts(height, width) if cut is not None]
    return min(found, key=len, default=None)


def _cuts(height: int, width: int) -> Iterator[tuple[Part, ...] | None]:
    for at in range(1, height):
        yield _joined(_cut(at, width), _cut(height - at, width), at, 0)
    for at in range(1, width):
        yield _joined(_cut(height, at), _cut(height, width - at), 0, at)


def _joined(
    one: tuple[Part, ...] | None, other: tuple[Part, ...] | None, row: int, column: int
) -> tuple[Part, ...] | None:
    if one is None or other is None:
        return None
    return (*one, *(Part(each.rows.after(row), each.columns.after(column)) for each in other))


def _sum(program: ExportedProgram, node: torch.fx.Node, found: tuple[Part, ...]) -> torch.fx.Node:
    x, weight, bias, stride, padding, dilation, *_, groups = node.args
    data = get_param_tensor(program, weight)
    assert data is not None
    padded, total = None, None
    for number, (part, share) in enumerate(_shares(found)):
        rows, columns = (slice(taps.first, taps.places.stop, taps.apart) for taps in part)
        own = _middle_times(data.detach()[:, :, rows, columns], share)
        own = own.clone(memory_format=torch.contiguous_format)
        weights = add_constant(program, f"{node.name}_part_{number}", own)
        apart = [each * taps.apart for each, taps in zip(dilation, part, strict=True)]
        pixels, around = x, _padding(part, data.shape[2:], padding, dilation)
        if around is None:
            padded = padded or _padded(program, node, x, padding)
            pixels, around = _sliced(program, node, padded, part), [0, 0]
        more = (stride, around, apart, False, [0, 0], groups)
        made = _call(program, node, edge.convolution.default, pixels, weights, None if total else bias, *more)
        total = _call(program, node, edge.add.Tensor, total, made) if total else made
    assert total is not None
    return total


def _shares(found: tuple[Part, ...]) -> Iterator[tuple[Part, float]]:
    """Yield each part with a factor of its middle tap: powers of two divide a tap in several parts, which is exact."""
    number = Counter(tap for part in found for tap in part.taps())
    seen: Counter[tuple[int, int]] = Counter()
    for part in found:
        seen.update(part.taps())
        shared = [tap for tap in part.taps() if number[tap] > 1]
        yield part, 2.0 ** -max((min(seen[tap], number[tap] - 1) for tap in shared), default=0)


def _middle_times(weight: torch.Tensor, factor: float) -> torch.Tensor:
    """Return the weight of a part with its middle tap times a factor, by operations that are recorded."""
    if factor == 1:
        return weight
    row, column = (size // 2 for size in weight.shape[2:])
    middle = weight[:, :, row : row + 1]
    scaled = middle[:, :, :, column : column + 1] * factor
    middle = torch.slice_scatter(middle, scaled, 3, column, column + 1)
    return torch.slice_scatter(weight, middle, 2, row, row + 1)


def _padding(part: Part, window: Sequence[int], padding: Sequence[int], dilation: Sequence[int]) -> list[int] | None:
    """Return the padding of the image with which a part's convolution has the result's size; None if there is none."""
    around = []
    for taps, size, pixels, apart in zip(part, window, padding, dilation, strict=True):
        if taps.places.start + taps.places[-1] != size - 1 or pixels < taps.first * apart:
            return None
        around.append(pixels - taps.first * apart)
    return around


def _padded(program: ExportedProgram, node: torch.fx.Node, x: torch.fx.Node, padding: Sequence[int]) -> torch.fx.Node:
    if not any(padding):
        return x
    around = [padding[1], padding[1], padding[0], padding[0]]
    return _call(program, node, edge.constant_pad_nd.default, x, around, 0.0)


def _sliced(program: ExportedProgram, node: torch.fx.Node, pixels: torch.fx.Node, part: Part) -> torch.fx.Node:
    """Return the pixels of a padded image that a part reads."""
    _, _, _, stride, _, dilation, *_ = node.args
    for dim, taps, step, apart in zip((2, 3), part, stride, dilation, strict=True):
        begin = taps.first * apart
        end = taps.places[-1] * apart + (node.meta["val"].shape[dim] - 1) * step + 1
        if end - begin < pixels.meta["val"].shape[dim]:
            pixels = _call(program, node, edge.slice_copy.Tensor, pixels, dim, begin, end)
    return pixels


def _call(program: ExportedProgram, node: torch.fx.Node, target: Any, *args: Any) -> torch.fx.Node:
    """Add a call before a node."""
    with program.graph.inserting_before(node):
        made = program.graph.call_function(target, args)
    values = torch.fx.node.map_arg(args, lambda each: each.meta["val"])
    made.meta = {**node.meta, "val": target(*values)}
    made.meta.pop("tensor_meta", None)
    return made
