"""Weights that compress, so that programs of many models fit in one transfer to a machine with a GPU."""

from torch import nn

PERIOD = 4093
"""A prime number: rows of a weight differ from each other although its values repeat."""


def repeated(module: nn.Module) -> nn.Module:
    """Return the module with each parameter of more values made of its first PERIOD values."""
    for parameter in module.parameters():
        values = parameter.data.flatten()
        if len(values) > PERIOD:
            times = -(-len(values) // PERIOD)
            parameter.data = values[:PERIOD].repeat(times)[: len(values)].view_as(parameter)
    return module
