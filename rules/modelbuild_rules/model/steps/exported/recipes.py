"""Repeat the recorded calls (sources.py) that make tensors of weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from modelbuild_rules.model.steps.exported.values import read_operator, read_value


class Recipes:
    """Tensors by name: weights, and results of calls.

    calls    [operator, arguments, keyword arguments] by the name of the result, as Sources.calls() returns them
    weights  weights by name
    """

    def __init__(self, calls: Mapping[str, Any], weights: Mapping[str, torch.Tensor]) -> None:
        self._calls = calls
        self._weights = weights

    def is_weight(self, name: str) -> bool:
        return name not in self._calls

    def tensor(self, name: str) -> torch.Tensor:
        """Return a tensor. Results that it is made of are computed once, and kept no longer."""
        made: dict[str, Any] = {}

        def value(name: str) -> Any:
            if name not in self._calls:
                return self._weights[name]
            if name not in made:
                operator, args, kwargs = self._calls[name]
                given, named = read_value(args, value), read_value(kwargs, value)
                made[name] = read_operator(operator)(*given, **named)
            return made[name]

        with torch.no_grad():
            return value(name).detach()

    def data(self, name: str, size: int) -> bytes:
        """Return the bytes of a tensor's storage. Raises ValueError unless they are `size` bytes."""
        storage = self.tensor(name).untyped_storage()
        if storage.nbytes() != size:
            raise ValueError(f"{name} has {storage.nbytes()} bytes, and {size} without values")
        return bytes(torch.empty(0, dtype=torch.uint8).set_(storage).numpy()) if size else b""
