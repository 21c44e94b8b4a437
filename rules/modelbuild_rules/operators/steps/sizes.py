"""Bounds of sizes.

Private names used, checked on torch 2.14.0: torch.SymInt.node (expr, shape_env), ShapeEnv.var_to_range, and
torch.utils._sympy.value_ranges.bound_sympy. Not patched.
"""

from __future__ import annotations

import sympy
import torch
from torch.utils._sympy.value_ranges import bound_sympy


def upper(size: int | torch.SymInt) -> int | None:
    """Return the upper bound of a size; None if it has none."""
    if isinstance(size, int):
        return size
    found = bound_sympy(size.node.expr, size.node.shape_env.var_to_range).upper
    return int(found) if isinstance(found, (int, sympy.Integer)) else None


def up_to(size: int | torch.SymInt) -> torch.SymInt:
    """Return a new size that depends on values and is not above another, in the shapes of an operator's results."""
    made: torch.SymInt = torch.library.get_ctx().new_dynamic_size(max=upper(size))
    return made
