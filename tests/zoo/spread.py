"""Random weights whose results vary as those of a trained model do."""

from typing import Any

from torch import Tensor, nn


def spread(model: nn.Module, *args: Any, **kwargs: Any) -> None:
    """Scale the weights of each layer so that its results on an example have a standard deviation near 1.

    The scales are powers of two: they do not depend on the last bits of the example's results.
    """
    scaled = set()

    def scale(layer: nn.Module, given: Any, result: Tensor) -> Tensor:
        if layer in scaled or not result.std() > 0:
            return result
        scaled.add(layer)
        layer.weight.mul_(2.0 ** -result.std().log2().round())
        return layer.forward(*given)

    layers = [layer for layer in model.modules() if isinstance(layer, (nn.Conv2d, nn.Linear))]
    hooks = [layer.register_forward_hook(scale) for layer in layers]
    model(*args, **kwargs)
    for hook in hooks:
        hook.remove()
