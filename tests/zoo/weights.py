"""Weights that compress, so that programs of many models fit in one transfer to a machine with a GPU."""

from torch import nn

PERIOD = 4093
"""A prime number: rows of a weight differ from each other although its values repeat."""


def repeated(module: nn.Module) -> nn.Module:
    """Return the module with each parameter of more values made of its first PERIOD values.

    Matrices of zeros, such as a classifier's before its training, are drawn: otherwise all outputs were zero.
    """
    for parameter in module.parameters():
        if parameter.dim() > 1 and not parameter.any():
            nn.init.normal_(parameter, std=0.02)
        values = parameter.data.flatten()
        if len(values) > PERIOD:
            times = -(-len(values) // PERIOD)
            parameter.data = values[:PERIOD].repeat(times)[: len(values)].view_as(parameter)
    return module
