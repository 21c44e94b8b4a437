"""Keep dynamic sizes of few values.

torch compares sizes with 0 and 1 and narrows their ranges by the results for the example: 1 to 2 becomes 2 to 2, and
the size the number 2. The declared ranges are restored later (rewrites/bounds.py), but no number becomes a size again.

ShapeEnv._set_replacement of torch.fx.experimental.symbolic_shapes is patched temporarily. Checked on torch 2.14.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy.value_ranges import ValueRanges


@contextmanager
def dynamic_sizes_kept(declared: Mapping[Any, ValueRanges[Any]]) -> Iterator[None]:
    """Keep the declared sizes as symbols while the context lasts, although torch narrows their ranges to a number."""
    replace = ShapeEnv._set_replacement

    def replaced(env: ShapeEnv, symbol: Any, number: Any, reason: str) -> None:
        kept = symbol in declared and not declared[symbol].is_singleton()
        if not (kept and reason == "range_refined_to_singleton"):
            replace(env, symbol, number, reason)

    with patch.object(ShapeEnv, "_set_replacement", replaced):
        yield
