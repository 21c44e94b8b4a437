"""Bound the numbers of distinct values of tensors whose sizes depend on values.

ExecuTorch computes the shapes of a partition's results again. torch bounds the result of nonzero by the greatest size
of its input, and of unique only if the input's size is known.

Private name patched while the context lasts, checked on torch 2.14.0: torch._subclasses.fake_impls._unique. Other
private names: torch.SymInt.node (expr, shape_env), ShapeEnv.var_to_range.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch._subclasses import fake_impls
from torch.utils._sympy.value_ranges import ValueRanges

from modelbuild_rules.operators.steps.sizes import upper


@contextmanager
def distinct_bounded() -> Iterator[None]:
    """Bound the results of unique, unique_dim and unique_consecutive while the context lasts."""
    original = fake_impls._unique

    def bounded(mode: Any, operator: Any, x: Any, dim: int | None, *how: bool, **named: bool) -> Any:
        found = original(mode, operator, x, dim, *how, **named)
        size, most = found[0].shape[dim or 0], upper(x.numel() if dim is None else x.shape[dim])
        if isinstance(size, torch.SymInt) and most is not None:
            ranges = size.node.shape_env.var_to_range
            ranges[size.node.expr] &= ValueRanges(0, most)
        return found

    with patch.object(fake_impls, "_unique", bounded):
        yield
