"""The quantizer for TensorRT: its table in a `quantization_recipe`."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import AfterValidator

from modelbuild.api import Attrs
from modelbuild_rules.backend_api.backend import DeviceFacts, Values, as_set
from modelbuild_rules.backend_api.decides import Decides
from modelbuild_rules.backend_api.quantizer import Quantizer

Operator = Literal["aten.conv2d.default", "aten.linear.default"]
_CONVOLUTION, _LINEAR = get_args(Operator)

FLOAT8 = "float8_e4m3fn"
_FLOAT8_CAPABILITY = 8.9


class TensorrtQuantizer(Attrs):
    """Symmetric 8-bit weights, with a scale for each output channel, and inputs of convolutions and linear layers, for
    TensorRT. Results stay in floating point."""

    type: Literal["tensorrt"]
    """The kind of quantizer."""

    dtype: Annotated[Literal["int8", "float8_e4m3fn"], Decides("calibrate")] = "int8"
    """Type of quantized values. float8_e4m3fn is for linear layers and compute capability 8.9 or above."""

    observer: Annotated[Literal["histogram", "min_max"], Decides("calibrate")] = "histogram"
    """Ranges of activations: with the least error by a histogram, or up to the greatest value, as always with
    float8_e4m3fn."""

    operators: Annotated[tuple[Operator, ...], AfterValidator(as_set), Decides("calibrate")] = ()
    """Operators to quantize, named as before lowering; by default both, or linear layers with float8_e4m3fn."""

    modules: Annotated[tuple[str, ...], AfterValidator(as_set), Decides("calibrate")] = ()
    """Submodules to quantize; by default the whole model."""

    exclude: Annotated[tuple[str, ...], AfterValidator(as_set), Decides("calibrate")] = ()
    """Submodules to leave in floating point."""


class _TensorrtQuantizer(Quantizer):
    def contradiction(self, table: Attrs) -> tuple[str, str] | None:
        assert isinstance(table, TensorrtQuantizer)
        if table.dtype != FLOAT8:
            return None
        if "observer" in table.model_fields_set:
            return "observer", f"ranges of {FLOAT8} go up to the greatest value; expected no 'observer'"
        if _CONVOLUTION in table.operators:
            # The builder of TensorRT-RTX 1.6.1 expands their weights and computes in the type of the results.
            return "operators", f'TensorRT has no convolutions of {FLOAT8}; expected {_LINEAR}, or dtype = "int8"'
        return None

    def needs_data(self, attributes: Values) -> bool:
        return True

    def device_problem(self, attributes: Values, facts: DeviceFacts) -> str:
        older = [name for name in facts.get("compute_capabilities", ()) if float(name) < _FLOAT8_CAPABILITY]
        if attributes["dtype"] != FLOAT8 or not older:
            return ""
        return (
            f"the recipe's {FLOAT8} needs compute capability {_FLOAT8_CAPABILITY} or above, not {older[0]}; expected"
            f' another device, or dtype = "int8" in the recipe'
        )


QUANTIZER = _TensorrtQuantizer(
    "quantizer",
    "tensorrt",
    TensorrtQuantizer,
    quantizing="modelbuild_rules.backends.tensorrt.steps.quantizing",
    backend="tensorrt",
)
