"""The JSON documents of quantization, as types.

For type checkers only: import it under `if TYPE_CHECKING`, which leaves it out of every step's key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict


class UsedQuantizer(TypedDict):
    """An entry of the parameter `quantizers`: a quantizer of the recipe."""

    kind: str
    """Its name, as the `type` of its table."""

    quantizing: str
    """Import name of the module that makes torchao's quantizer."""

    attributes: Mapping[str, Any]
    """Its attributes: for the calibration those of `Quantizer.observe`, for the conversion all."""


class GeneratedParams(TypedDict):
    """The parameters of the step that generates samples."""

    entry: str
    """`path/in/workspace.py:name` of the function."""

    kwargs: Mapping[str, Any]
    """Its arguments."""

    max_samples: int | None
    """Number of samples after which it stops."""

    seed: int
    """Seed of torch, random and numpy.random."""


class RecipeParams(TypedDict):
    """The parameters of the calibration and of the conversion."""

    quantizers: Sequence[UsedQuantizer]


Modules = Mapping[str, str]
"""modules.json: the qualified name of the innermost module of each of the exported program's nodes."""

Origins = Mapping[str, str]
"""origins.json: the node of the float program that each node of the quantized program was made from."""
