"""Correct Inductor's templates and choices where its originals lead to wrong addresses, slow kernels, or kernels that
the delegate lacks.

Uses private parts of torch; target_gpu.py applies the corrections, and lists the versions that they were checked on.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import sympy
import torch

from modelbuild_rules.backend_api.steps.nodes import OPERATOR
from modelbuild_rules.backends.cuda.steps.generate.epilogues import apart, beside

ALIGNED = re.compile(r"tl\.multiple_of\((\w+ % [A-Z]), BLOCK_[A-Z]\)")
"""A hint in templates that a block's rows (or columns), which begin again after the last row, start at multiples of the
block's size. It is false if no block ends with the last row: of 37 rows in blocks of 16, the third block has rows 32 to
36, then 0, 1 and so on. An operator fused into the template may read one element for each row. With the hint, Triton
reads four elements at once, beyond the last element and at addresses that are not multiples of 16 bytes. Without the
hint, it derives the real alignment. The template's own reads lose nothing: the rows' distance also bounds their
width."""

SMALL_TILES = ((64, 32, 32), (32, 64, 32), (32, 32, 32), (32, 32, 64), (16, 64, 64), (16, 32, 64), (16, 32, 128))
"""Rows, columns and depth."""


def corrections() -> Iterator[tuple[Any, str, Any]]:
    """Yield owners and names of parts of Inductor, each with its replacement."""
    from torch._inductor import decomposition, ir, lowering, select_algorithm, utils
    from torch._inductor.choices import InductorChoices
    from torch._inductor.heuristics.template import triton as heuristics
    from torch._inductor.kernel import mm_plus_mm

    yield select_algorithm, "PartialRender", _without_false_hints(select_algorithm.PartialRender)
    yield heuristics.BaseConfigHeuristic, "get_conv_configs", _with_small_tiles
    yield heuristics.MMTemplateConfigMixin, "get_extra_kwargs", _with_tf32
    yield InductorChoices, "can_fuse_vertical", apart(InductorChoices.can_fuse_vertical)
    yield InductorChoices, "can_fuse_horizontal", beside(InductorChoices.can_fuse_horizontal)
    yield mm_plus_mm, "tuned_mm_plus_mm", _two_products
    yield ir.Scan, "num_splits", classmethod(_whole_rows)
    yield ir.AssertScalar, "codegen", _of_numbers(ir.AssertScalar.codegen)
    yield lowering, "sort_fallback", _rows_at_once(lowering.sort_fallback)
    for name in ("needs_fallback_due_to_atomic_add_limitations", "use_scatter_fallback"):
        corrected = _with_atomic_int64(getattr(utils, name))
        for module in (utils, lowering, decomposition):
            yield module, name, corrected


def _without_false_hints(original: Any) -> Any:
    """Return a replacement of the class for a template's text that omits false hints."""

    class Render(original):
        def __init__(self, code: str, hooks: Any) -> None:
            super().__init__(ALIGNED.sub(r"\1", code), hooks)

    return Render


def _with_small_tiles(self: Any) -> Any:
    """Return the configurations of convolutions, with additional small tiles: for the last layers of a single image,
    Inductor has fewer tiles than a GPU has multiprocessors."""
    from torch._inductor.heuristics.template.triton import ConvConfig

    small = [ConvConfig(*each, num_stages=3, num_warps=4) for each in SMALL_TILES]
    return partial(self.preprocess_mm_configs, configs=[*self.conv_configs, *small], op_name="conv")


def _with_tf32(self: Any, kernel_inputs: Any, op_name: str) -> dict[str, Any]:
    """Return more options of a product's template. Inductor uses TF32 for large products only, as cuBLAS does; other
    products would run without tensor cores, at a fifteenth of the speed."""
    return {"ALLOW_TF32": torch.backends.cuda.matmul.fp32_precision == "tf32"}


def _two_products(one: Any, other: Any, third: Any, fourth: Any, *, layout: Any = None) -> Any:
    """Return the sum of two matrix products. Inductor's template for both has no configuration for small depths."""
    from torch._inductor.lowering import lowerings as known

    mm = known[torch.ops.aten.mm.default]
    return known[torch.ops.aten.add.Tensor](mm(one, other), mm(third, fourth))


def _whole_rows(cls: Any, *_: Any, **__: Any) -> tuple[Any, int]:
    """Return the number of blocks for a row of a scan: one, which loops over the row. Several blocks would need a
    workspace of zeros, for which the delegate has no kernel."""
    from torch._inductor.runtime.hints import ReductionHint

    return ReductionHint.DEFAULT, 1


def _rows_at_once(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a replacement for "leave this sort to a library" that gives it contiguous tensors of one dimension.

    ExecuTorch's kernel accepts contiguous tensors only, and sorts one row after another. Rows are sorted together: all
    values first, and then by the number of their row. Tensors of sizes that are not known are only made contiguous.
    """
    from torch._inductor import ir
    from torch._inductor.lowering import lowerings as known

    aten = torch.ops.aten

    def left(x: Any, *, stable: bool | None = None, dim: int = -1, descending: bool = False) -> Any:
        sizes = x.get_size()
        dim %= len(sizes)
        rows, row = math.prod(size for place, size in enumerate(sizes) if place != dim), sizes[dim]
        known_sizes = all(isinstance(size, (int, sympy.Integer)) for size in sizes)
        if not known_sizes or rows == 1 or rows * row == 0:
            x = ir.ExternKernel.require_contiguous(x)
            return original(x, stable=stable, dim=dim, descending=descending)
        order = [*(place for place in range(len(sizes)) if place != dim), dim]
        moved = known[aten.clone.default](known[aten.permute.default](x, order))
        flat = ir.ExternKernel.require_contiguous(known[aten.reshape.default](moved, [rows * row]))
        values, places = original(flat, stable=True, dim=0, descending=descending)
        numbers = known[aten.div.Tensor_mode](places, int(row), rounding_mode="floor")
        _, found = original(ir.ExternKernel.require_contiguous(numbers), stable=True, dim=0, descending=False)
        back = [order.index(place) for place in range(len(sizes))]
        made = values, known[aten.remainder.Scalar](places, int(row))
        flat_results = (known[aten.index.Tensor](each, [found]) for each in made)
        of_rows = (known[aten.reshape.default](each, [sizes[place] for place in order]) for each in flat_results)
        return tuple(known[aten.permute.default](each, back) for each in of_rows)

    return left


def _with_atomic_int64(original: Callable[..., bool]) -> Callable[..., bool]:
    """Return a replacement for "does a sum of these types need libtorch?" that treats int64 as int32: Triton adds both
    atomically, and libtorch's kernel is missing."""

    def needed(*given: Any) -> bool:
        return original(*(torch.int32 if each is torch.int64 else each for each in given))

    return needed


def _of_numbers(original: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """Return a replacement of the code generation of assertions that omits those about counts.

    torch derives an assertion from each view of a tensor whose size depends on values: its storage is longer than the
    view's offset, so the count is not 0, which is false. A count of elements is within its bounds; a number that the
    program reads from a tensor may be outside of what the model declares.
    """

    def codegen(self: Any, wrapper: Any) -> None:
        from torch._inductor.virtualized import V

        read = {operation.sym for operation in V.graph.operations if _is_number(operation)}
        unbacked = self.get_free_symbol_uses(unbacked_only=True)
        if not unbacked or not read.isdisjoint(unbacked):
            original(self, wrapper)

    return codegen


def _is_number(operation: Any) -> bool:
    """Return whether an operation reads a number for which the partition has a node."""
    from torch._inductor.ir import DynamicScalar

    if not isinstance(operation, DynamicScalar):
        return False
    marks = (OPERATOR.fullmatch(node.meta.get("stack_trace") or "") for node in operation.origins)
    return any(mark["op"] == _NUMBER for mark in marks if mark)


_NUMBER = "_local_scalar_dense.default"
