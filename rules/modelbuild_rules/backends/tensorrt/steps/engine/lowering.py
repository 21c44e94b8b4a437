"""Lower a partition with torch_tensorrt's decompositions and passes, on ATen operators."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram

from modelbuild_rules.backend_api.steps.composite_operators import composite_operators_found_once
from modelbuild_rules.backends.tensorrt.steps.engine.aten_program import aten_program
from modelbuild_rules.backends.tensorrt.steps.engine.half_precision import HALVES, in_half_precision
from modelbuild_rules.backends.tensorrt.steps.engine.sums import subtract_negatives
from modelbuild_rules.backends.tensorrt.steps.engine.torch_tensorrt_private import PENDING

aten = torch.ops.aten


def decompositions(settings: Any) -> dict[Any, Any]:
    """Return torch_tensorrt's decompositions, with changes for views, one-dimensional topk and sort, index_put,
    scatter, and operands of unequal ranks."""
    from torch_tensorrt.dynamo.lowering import get_decompositions

    table = get_decompositions(settings.enable_experimental_decompositions, settings.decompose_attention)
    # Views have converters; their decompositions are copies, with fewer converters.
    table.pop(aten.view.default, None)
    ranks = {operator: _of_equal_ranks(operator) for operator in _ELEMENTWISE if operator not in table}
    own = {
        aten.addmm.default: _addmm,
        aten.index_put.default: _index_put,
        aten.scatter.src: _scatter,
        aten.scatter.value: _scatter_number,
        aten.sort.default: _sort,
        aten.topk.default: _topk,
    }
    return {**table, **ranks, **own}


_ELEMENTWISE = (
    aten.add.Tensor,
    aten.atan2.default,
    aten.bitwise_and.Tensor,
    aten.bitwise_or.Tensor,
    aten.bitwise_xor.Tensor,
    aten.div.Tensor,
    aten.div.Tensor_mode,
    aten.eq.Tensor,
    aten.fmod.Tensor,
    aten.ge.Tensor,
    aten.gt.Tensor,
    aten.le.Tensor,
    aten.logical_and.default,
    aten.logical_or.default,
    aten.logical_xor.default,
    aten.lt.Tensor,
    aten.maximum.default,
    aten.minimum.default,
    aten.mul.Tensor,
    aten.ne.Tensor,
    aten.pow.Tensor_Tensor,
    aten.remainder.Tensor,
    aten.sub.Tensor,
)


def _of_equal_ranks(operator: Any) -> Callable[..., Any]:
    """Return a decomposition that adds leading dimensions of size 1 to the operand with fewer dimensions.

    The converters would repeat the operand to the other operand's shape, as a constant of that size. If the operand is
    the bias of a product, and the sum is split and transposed, TensorRT-RTX then fails to build the engine. Seen in
    TensorRT-RTX 1.6.1.
    """

    def decompose(one: Any, other: Any, **options: Any) -> Any:
        # Other decompositions may give a number.
        if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
            return NotImplemented
        rank = max(one.dim(), other.dim())
        # The other operand's type takes precedence over the type of a tensor without dimensions.
        if one.dim() == other.dim() or (min(one.dim(), other.dim()) == 0 and one.dtype != other.dtype):
            return NotImplemented
        return operator(_of_rank(one, rank), _of_rank(other, rank), **options)

    return decompose


def _of_rank(x: torch.Tensor, rank: int) -> torch.Tensor:
    while x.dim() < rank:
        x = x.unsqueeze(0)
    return x


def _addmm(bias: torch.Tensor, one: torch.Tensor, other: torch.Tensor, **factors: Any) -> Any:
    if bias.dim() < 2:
        return aten.addmm.default(_of_rank(bias, 2), one, other, **factors)
    rows = bias.shape[0]
    # For `subtract_negatives`.
    return aten.mm.default(one, other) + bias if isinstance(rows, int) and rows > 1 and not factors else NotImplemented


def _topk(x: torch.Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """Decompose a one-dimensional topk: TensorRT's layer needs two dimensions, which the converter does not ensure."""
    if x.dim() != 1:
        return NotImplemented
    values, indices = aten.topk.default(x.unsqueeze(0), k, 1, largest, sorted)
    return values.squeeze(0), indices.squeeze(0)


def _sort(x: torch.Tensor, dim: int = -1, descending: bool = False) -> Any:
    if x.dim() != 1:
        return NotImplemented
    values, indices = aten.sort.default(x.unsqueeze(0), 1, descending)
    return values.squeeze(0), indices.squeeze(0)


def _index_put(x: torch.Tensor, indices: Sequence[Any], values: torch.Tensor, accumulate: bool = False) -> Any:
    """Decompose `x[:, :, index] = values`: the converter broadcasts values correctly only if the first dimension is
    indexed."""
    given = [place for place, index in enumerate(indices) if index is not None]
    if len(given) != 1 or given[0] == 0 or indices[given[0]].dtype == torch.bool:
        return NotImplemented
    place, index = given[0], indices[given[0]]
    if index.dim() != 1:
        return NotImplemented
    values = values.expand(*x.shape[:place], index.shape[0], *x.shape[place + 1 :])
    first = aten.index_put.default(x.movedim(place, 0), [index], values.movedim(place, 0), accumulate)
    return first.movedim(0, place)


def _scatter(x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor) -> Any:
    """Decompose a scatter of a part of a tensor: TensorRT's layer needs one value for each index."""
    if x.dim() == 0:
        return aten.scatter.src(x.unsqueeze(0), 0, _of_rank(index, 1), _of_rank(source, 1)).squeeze(0)
    if index.dim() != x.dim() or source.dim() != x.dim():
        return NotImplemented
    part = source
    for place, size in enumerate(index.shape):
        if source.shape[place] != size:
            part = aten.slice.Tensor(part, place, 0, size)
    return NotImplemented if part is source else aten.scatter.src(x, dim, index, part)


def _scatter_number(x: torch.Tensor, dim: int, index: torch.Tensor, number: Any) -> Any:
    """Decompose a scatter of a number, which the converter would make float64."""
    return aten.scatter.src(x, dim, index, torch.full(index.shape, number, dtype=x.dtype, device=x.device))


@composite_operators_found_once()
def lowered(program: ExportedProgram, settings: Any, precision: str) -> torch.fx.GraphModule:
    """Return the graph for torch_tensorrt's interpreter. Its inputs are the program's user inputs."""
    from torch_tensorrt.dynamo.lowering import post_lowering, pre_export_lowering

    forget_pending_sizes([node.meta.get("val") for node in program.graph.nodes])
    logging.disable(logging.WARNING)
    try:
        whole = aten_program(program)
        if precision in HALVES:
            whole = in_half_precision(whole, HALVES[precision])
        aten = pre_export_lowering(whole, settings).run_decompositions(decompositions(settings))
        return subtract_negatives(post_lowering(aten.module(check_guards=False), settings))
    finally:
        logging.disable(logging.NOTSET)


def forget_pending_sizes(values: Sequence[Any]) -> None:
    """Clear sizes that passes created and bound to no node; tracing would look for them in its own results."""
    mode = torch._guards.detect_fake_mode(values)
    if mode is not None and mode.shape_env is not None:
        getattr(mode.shape_env, PENDING).clear()
