"""The JSON documents of kernel libraries, as types.

For type checkers only: import it under `if TYPE_CHECKING`, which leaves it out of every step's key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict


class GivenLibrary(TypedDict):
    """A kernel library of the workspace, in the parameter `kernels` of a step that handles its operators."""

    library: str
    """Its name."""

    operators: Sequence[str]
    """As "my_ops::scale", or "my_ops::scale.overload"."""

    eager: Sequence[str]
    """Workspace paths of the Python files that register the operators."""


class KernelArgument(TypedDict):
    """An argument of an operator with output arguments."""

    name: str
    type: str
    """As in the schema, such as "Tensor?" or "int[]"."""

    out: bool
    """True for an output."""


class KernelOperator(TypedDict):
    """An entry of operators.json."""

    name: str
    """As programs name it: "my_ops::scale.out"."""

    schema: str
    arguments: Sequence[KernelArgument]
