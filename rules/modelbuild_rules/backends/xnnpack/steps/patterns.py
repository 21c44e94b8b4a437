"""Keeps XNNPACK's compiler from building patterns that a partition can't hold: 12 s of CPU for each process that does.

Private names of executorch are replaced, and put back after use; executorch_xnnpack_private.py lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from executorch.backends.xnnpack.partition.graphs import bilinear_2d, sdpa

# Operators without which no pattern of attention matches (edge operators by their names).
SDPA = frozenset(("aten._softmax.default", "aten.bmm.default"))


@contextmanager
def needed_patterns(program: Any) -> Iterator[None]:
    """While the context lasts, the pattern for attention is only there for a program that may hold it. That for
    bilinear interpolation is the operator itself since executorch keeps it whole: replacing it changes nothing."""
    found = {node.target.__name__ for node in program.graph.nodes if node.op == "call_function"}
    graphs: Callable[[], Any] = sdpa.get_graphs if found >= SDPA else list
    with ExitStack() as stack:
        stack.enter_context(patch.object(bilinear_2d, "get_graphs_dict", dict))
        stack.enter_context(patch.object(sdpa, "get_graphs", graphs))
        yield
