"""Stop XNNPACK's compiler from building patterns that a partition cannot contain, which takes 12 s of CPU per process.

Private names of executorch are patched temporarily; executorch_xnnpack_private.py lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from executorch.backends.xnnpack.partition.graphs import bilinear_2d, sdpa

# Names of the edge operators that every attention pattern contains.
SDPA = frozenset(("aten._softmax.default", "aten.bmm.default"))


@contextmanager
def needed_patterns(program: Any) -> Iterator[None]:
    """Exclude the attention patterns for a program that cannot match them, while the context lasts. Always exclude the
    patterns of bilinear interpolation: executorch no longer decomposes this operator, so they match nothing."""
    found = {node.target.__name__ for node in program.graph.nodes if node.op == "call_function"}
    graphs: Callable[[], Any] = sdpa.get_graphs if found >= SDPA else list
    with ExitStack() as stack:
        stack.enter_context(patch.object(bilinear_2d, "get_graphs_dict", dict))
        stack.enter_context(patch.object(sdpa, "get_graphs", graphs))
        yield
