"""The quantizer for XNNPACK: its table in a `quantization_recipe`, and the stacks that run its operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from modelbuild.api import Attrs
from modelbuild_rules.backend_api.backend import Values, as_set
from modelbuild_rules.backend_api.decides import Decides
from modelbuild_rules.backend_api.quantizer import Quantizer

Operator = Literal[
    "aten.add.Tensor",
    "aten.cat.default",
    "aten.conv1d.default",
    "aten.conv2d.default",
    "aten.conv_transpose2d.input",
    "aten.linear.default",
    "aten.mul.Tensor",
]


class XnnpackQuantizer(Attrs):
    """Symmetric 8-bit or 4-bit weights and 8-bit activations, for XNNPACK."""

    type: Literal["xnnpack"]
    """The kind of quantizer."""

    mode: Annotated[Literal["static", "dynamic"], Decides("calibrate")] = "static"
    """Ranges of activations: observed on calibration data, or computed in each call, for linear layers and for
    convolutions of images that no ReLU follows; their results stay in floating point."""

    observer: Annotated[Literal["histogram", "min_max"], Decides("calibrate")] = "histogram"
    """Static ranges: with the least error by a histogram, or from the lowest to the highest value."""

    weights: Annotated[Literal["int8", "int4"], Decides("calibrate")] = "int8"
    """The type of weights. int4 is for linear layers with dynamic ranges."""

    per_channel: Annotated[bool, Decides("convert")] = True
    """Scale the weights of each output channel."""

    group_size: Annotated[int | None, Decides("convert")] = Field(default=None, ge=32, multiple_of=32)
    """With int4: number of input channels that share a scale."""

    operators: Annotated[tuple[Operator, ...], AfterValidator(as_set), Decides("calibrate")] = ()
    """Operators to quantize, named as before lowering; by default all of this mode."""

    modules: Annotated[tuple[str, ...], AfterValidator(as_set), Decides("calibrate")] = ()
    """Submodules to quantize; by default the whole model."""

    exclude: Annotated[tuple[str, ...], AfterValidator(as_set), Decides("calibrate")] = ()
    """Submodules to leave in floating point."""


class _XnnpackQuantizer(Quantizer):
    def contradiction(self, table: Attrs) -> tuple[str, str] | None:
        assert isinstance(table, XnnpackQuantizer)
        dynamic = table.mode == "dynamic"
        if dynamic and not table.per_channel:
            return "per_channel", "XNNPACK has no linear layers with dynamic ranges and one scale; expected true"
        if table.weights == "int4" and not dynamic:
            return "weights", 'XNNPACK has int4 weights with dynamic ranges only; expected mode = "dynamic" as well'
        if table.group_size is not None and table.weights != "int4":
            return "group_size", 'XNNPACK has groups of int4 weights only; expected weights = "int4" as well'
        if dynamic and "observer" in table.model_fields_set:
            return "observer", "dynamic ranges are not observed; expected mode = \"static\", or no 'observer'"
        own = _LINEAR if table.weights == "int4" else _DYNAMIC
        if dynamic and (wrong := [each for each in table.operators if each not in own]):
            message = f"{table.weights} weights with dynamic ranges are for {', '.join(own)} only, not {wrong[0]}"
            return "operators", message
        return None

    def needs_data(self, attributes: Values) -> bool:
        return bool(attributes["mode"] == "static")

    def problem(self, attributes: Values, stack: Sequence[tuple[str, Values]]) -> str:
        precision = f"{attributes['mode']}_quant"
        found = [given for name, given in stack if name == self.backend]
        if found and not any(precision in given["precisions"] for given in found):
            ranges = f"its recipe has {attributes['mode']} ranges"
            return f"{ranges}, and '{precision}' is not among the precisions of {self.backend}"
        return super().problem(attributes, stack)


_LINEAR = ("aten.linear.default",)
_DYNAMIC = ("aten.conv1d.default", "aten.conv2d.default", "aten.conv_transpose2d.input", *_LINEAR)

QUANTIZER = _XnnpackQuantizer(
    "quantizer",
    "xnnpack",
    XnnpackQuantizer,
    quantizing="modelbuild_rules.backends.xnnpack.steps.quantizing",
    backend="xnnpack",
)
