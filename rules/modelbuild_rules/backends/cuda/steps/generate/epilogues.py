"""Keep operators apart from matrix products and convolutions if a common kernel would be slow, or would not compile.

A template stores a tile row by row. A fused operator that exchanges rows and columns, for example to make [batch,
channels, height, width] of a channels-last result, would write each element separately. In a separate kernel, it reads
and writes whole lines. It is kept apart if the result is large.

An operand whose values are all equal, such as an initial state of zeros, has one dimension within a template's kernel.
Inductor of torch 2.14.0 broadcasts it to the tile's two dimensions, which Triton refuses.

An operator that only reads the same tensor as a template's kernel, such as an operand of another product, is not part
of the kernel. Inductor of torch 2.14.0 may fuse it, and then fails to divide its loop by the template's tiles.

Uses private parts of torch; target_gpu.py lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

LARGE = 1 << 19
"""Bytes of a result. On an NVIDIA H200, writing 21 MB element by element took 150 us longer. In proportion, 512 KB take
4 us longer, which is about the time of another kernel."""


def apart(original: Callable[..., bool]) -> Callable[..., bool]:
    """Return a replacement for "may this operator be fused into its producer?" (a static method)."""

    def allowed(scheduler: Any, producer: Any, operator: Any, score: int) -> bool:
        if producer.is_template() and _bytes(operator) >= LARGE and _exchanges(producer, operator):
            return False
        if operator.is_template() and _is_uniform(producer):
            return False
        return original(scheduler, producer, operator, score)

    return staticmethod(allowed)


def beside(original: Callable[..., bool]) -> Callable[..., bool]:
    """Return a replacement for "may these operators, which read the same tensor, be fused?" (a static method)."""

    def allowed(scheduler: Any, one: Any, other: Any, score: int) -> bool:
        return not (one.is_template() or other.is_template()) and original(scheduler, one, other, score)

    return staticmethod(allowed)


def _bytes(operator: Any) -> int:
    from torch._inductor.virtualized import V

    hint = V.graph.sizevars.optimization_hint
    nodes = [each.node for each in operator.get_nodes()]
    return max((hint(each.get_numel()) * each.get_dtype().itemsize for each in nodes if each is not None), default=0)


def _is_uniform(producer: Any) -> bool:
    """Return whether an operator reads nothing that differs between its results."""
    bodies = [each._body for each in producer.get_nodes() if getattr(each, "_body", None) is not None]
    return all(index.free_symbols.isdisjoint(body.iter_vars) for body in bodies for index in body.get_read_exprs())


def _exchanges(producer: Any, operator: Any) -> bool:
    """Return whether an operator writes elements side by side that its producer writes apart."""
    made = producer.get_buffer_names()
    for each in operator.get_nodes():
        body = getattr(each, "_body", None)
        if body is None or not body.iter_vars:
            continue
        reads = [index for name in made for index in body.get_all_read_expr(name)]
        inner = _adjacent(body, reads)
        if inner and not inner & _adjacent(body, body.get_write_exprs()):
            return True
    return False


def _adjacent(body: Any, indices: Iterable[Any]) -> set[Any]:
    """Return the loops of an operator's body whose next element is the next in memory."""
    begin = dict.fromkeys(body.iter_vars, 0)
    return {
        loop
        for index in indices
        for loop in body.iter_vars
        if body.var_ranges[loop] != 1 and index.subs({**begin, loop: 1}) - index.subs(begin) == 1
    }
