"""Forms of operators: equivalent operators, by ATen operator.

FORMS        of operators without a kernel
CORRECTIONS  of operators whose kernel computes other values than eager mode for some arguments. They return
             NotImplemented for other arguments, and do not contain their own operator with wrong arguments
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from modelbuild_rules.program.steps.lowering.rewrites.forms import corrections, indexing, matrices, numbers, reductions

FORMS: Mapping[Any, Callable[..., Any]] = {
    **indexing.FORMS,
    **matrices.FORMS,
    **numbers.FORMS,
    **reductions.FORMS,
}
CORRECTIONS: Mapping[Any, Callable[..., Any]] = {**corrections.CORRECTIONS, **numbers.CORRECTIONS}
