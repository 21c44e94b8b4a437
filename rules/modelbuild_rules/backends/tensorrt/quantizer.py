"""The quantizer for TensorRT: its table in a `quantization_recipe`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator

from modelbuild.api import Attrs
from modelbuild_rules.backends.backend import as_set
from modelbuild_rules.quantization.quantizer import Quantizer, Values

Operator = Literal["aten.conv2d.default", "aten.linear.default"]


class TensorrtQuantizer(Attrs):
    """Symmetric 8-bit weights with a scale for each output channel, and symmetric 8-bit inputs of convolutions and
    linear layers, for TensorRT. Their results stay in floating point until the next of these layers."""

    type: Literal["tensorrt"]
    """The kind of quantizer."""

    observer: Literal["histogram", "min_max"] = "histogram"
    """Ranges of activations: the one with the least error according to a histogram, or up to the greatest value."""

    operators: Annotated[tuple[Operator, ...], AfterValidator(as_set)] = ()
    """Operators to quantize, as in a program before lowering; by default both."""

    modules: Annotated[tuple[str, ...], AfterValidator(as_set)] = ()
    """Submodules to quantize, with all that is inside; by default the whole model."""

    exclude: Annotated[tuple[str, ...], AfterValidator(as_set)] = ()
    """Submodules to leave in floating point, with all that is inside."""


class _TensorrtQuantizer(Quantizer):
    def needs_data(self, attributes: Values) -> bool:
        return True


QUANTIZER = _TensorrtQuantizer(
    "quantizer",
    "tensorrt",
    TensorrtQuantizer,
    quantizing="modelbuild_rules.backends.tensorrt.steps.quantizing",
    backend="tensorrt",
    observe=("observer", "operators", "modules", "exclude"),
)
