"""Keep large results of matrix products and convolutions apart from what writes them in another order.

A template stores a tile row by row. An operator that is fused into it and exchanges rows and columns, as the one that
makes [batch, channels, height, width] of a channels-last result, would write each element on its own; as a kernel of
its own, it reads and writes whole lines. Uses private parts of torch; target_gpu.py lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

LARGE = 1 << 19
"""Bytes of a result. On an NVIDIA H200, 21 MB took 150 us longer if they were written one by one, in proportion 4 us
for 512 KB, which is about what another kernel takes."""


def apart(original: Callable[..., bool]) -> Callable[..., bool]:
    """Return a replacement for "may this operator be fused into its producer?" (a static method)."""

    def allowed(scheduler: Any, producer: Any, operator: Any, score: int) -> bool:
        if producer.is_template() and _bytes(operator) >= LARGE and _exchanges(producer, operator):
            return False
        return original(scheduler, producer, operator, score)

    return staticmethod(allowed)


def _bytes(operator: Any) -> int:
    from torch._inductor.virtualized import V

    hint = V.graph.sizevars.optimization_hint
    nodes = [each.node for each in operator.get_nodes()]
    return max((hint(each.get_numel()) * each.get_dtype().itemsize for each in nodes if each is not None), default=0)


def _exchanges(producer: Any, operator: Any) -> bool:
    """Return whether an operator writes side by side what its producer does not."""
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
