"""A kind: a module, and calls of it, for which a program has to compute the module's values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch import Tensor, nn

Call = tuple[Tensor, ...]
Sizes = Mapping[tuple[int, int], tuple[int, int]]


@dataclass(frozen=True)
class Kind:
    """A model in a few lines, and its calls.

    name       as "add float32 0"
    make       makes the module
    calls      the inputs of each call; all calls are made in one process. torch.export gets the first
    dynamic    the least and the greatest size by the input's number and dimension
    undefined  true if values of results are not defined, only their types and shapes, as those of random numbers
    tied       true if integer results are indices into the first input, of which those of equal values are all right
    """

    name: str
    make: Callable[[], nn.Module]
    calls: Sequence[Call]
    dynamic: Sizes = field(default_factory=dict)
    undefined: bool = False
    tied: bool = False


class Function(nn.Module):
    """Calls a function with the inputs, and then with tensors of its own: parameters, or buffers if they are not of
    floating-point numbers."""

    def __init__(self, function: Callable[..., Any], own: Sequence[Tensor]) -> None:
        super().__init__()
        self.function = function
        self.names = [f"own{number}" for number in range(len(own))]
        for name, tensor in zip(self.names, own, strict=True):
            if tensor.is_floating_point():
                self.register_parameter(name, nn.Parameter(tensor.clone(), requires_grad=False))
            else:
                self.register_buffer(name, tensor.clone())

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs, *(getattr(self, name) for name in self.names))


def of_function(function: Callable[..., Any], own: Sequence[Tensor] = ()) -> Callable[[], nn.Module]:
    """Return a function that makes the module of a function of inputs and of tensors that the module owns."""
    return partial(Function, function, own)
