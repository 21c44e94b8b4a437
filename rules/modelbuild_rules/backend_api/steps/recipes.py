"""Recipes: the derivation of stored tensors from weights, as data.

A recipe is the name of a weight, or a list of an operation's name and its arguments: recipes, numbers and None. A
backend's compile step writes recipes without the values of weights, and its `storing` step applies them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import torch

from modelbuild_rules.model.steps.exported.tensors import weights_of

Recipe: TypeAlias = str | list[Any]


def read_weights(partition: Path) -> dict[str, torch.Tensor]:
    """Return a partition's weights by name, mapped from its files."""
    return weights_of(partition / "program", partition / "weights")


def evaluate(
    recipe: Recipe, weights: Mapping[str, torch.Tensor], operations: Mapping[str, Callable[..., torch.Tensor]]
) -> torch.Tensor:
    """Return the tensor of a recipe; with weights on the device `meta`, its type, shape and strides. Raises KeyError
    for an unknown weight or operation."""

    def value(argument: Any) -> Any:
        if isinstance(argument, str):
            return weights[argument]
        if isinstance(argument, list):
            return operations[argument[0]](*map(value, argument[1:]))
        return argument

    made: torch.Tensor = value(recipe)
    return made
