"""The JSON documents that the CUDA backend's steps exchange, as types.

For type checkers only: import it under `if TYPE_CHECKING`, which leaves it out of every step's key.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypeAlias, TypedDict

Layout: TypeAlias = list[Any]
"""A tensor's dtype, sizes, strides, offset in its storage, and the bytes of its storage."""


class PlannedWork(TypedDict):
    """An entry of plan.json: an action that a step found to be needed."""

    id: str
    """The name of the folder of its input, a digest."""

    description: str
    """A part of its name, shown while it runs."""


class StoredConstant(TypedDict):
    """An entry of constants.json: a constant of a library, in the library's order."""

    line: str
    """The first fields of its line in the list of constants (runtime/aoti/constants.hpp), up to its offset."""

    state: str
    """The last field: the qualified name of a buffer that the partition changes, or "-"."""

    layout: Layout
    """The layout that the library expects."""

    recipe: NotRequired[str | list[Any]]
    """A `Recipe` of backend_api/steps/recipes.py: how it derives from the weights of the partition."""

    value: NotRequired[str]
    """Instead of a recipe: the name of the file in `values` with its bytes, which are part of the code."""
