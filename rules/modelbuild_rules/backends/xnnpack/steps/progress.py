"""Show the progress of XNNPACK's compiler: executorch's passes on a partition, then written operators.

Private names of executorch are patched temporarily; executorch_xnnpack_private.py lists them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any
from unittest.mock import patch

from executorch.backends.xnnpack import _passes, xnnpack_preprocess

from modelbuild.step import Progress


@contextmanager
def shown(progress: Progress) -> Iterator[None]:
    """Show the progress of a compilation while the context lasts."""
    transform, apply = _passes.XNNPACKPassManager.transform, _passes._transform
    visitors, serialize = xnnpack_preprocess.get_node_visitors, xnnpack_preprocess.serialize_xnnpack_binary

    def transformed(manager: Any) -> Any:
        numbers = count(1)

        def applied(program: Any, *passes: Any) -> Any:
            progress("pass", next(numbers), len(manager.passes))
            return apply(program, *passes)

        with patch.object(_passes, "_transform", applied):
            return transform(manager)

    def watched(program: Any, *others: Any) -> Any:
        found = visitors(program, *others)
        total = sum(node.op == "call_function" for node in program.graph.nodes)
        numbers = count(1)

        def defined(define: Any, *given: Any) -> Any:
            progress("operator", next(numbers), total)
            return define(*given)

        for visitor in found.values():
            visitor.define_node = lambda *given, define=visitor.define_node: defined(define, *given)
        return found

    def serialized(*given: Any) -> Any:
        progress("serializing")
        return serialize(*given)

    with (
        patch.object(_passes.XNNPACKPassManager, "transform", transformed),
        patch.object(xnnpack_preprocess, "get_node_visitors", watched),
        patch.object(xnnpack_preprocess, "serialize_xnnpack_binary", serialized),
    ):
        yield
