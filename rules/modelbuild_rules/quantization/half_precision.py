"""The quantizer for every backend: half precision, for the model or some of its submodules."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator

from modelbuild.api import Attrs
from modelbuild_rules.backend_api.backend import as_set
from modelbuild_rules.backend_api.decides import Decides
from modelbuild_rules.backend_api.quantizer import Quantizer


class HalfPrecision(Attrs):
    """Floating-point operators and weights in 16 bits. The model's inputs and outputs keep their types. Other tables of
    the recipe quantize the result."""

    type: Literal["half"]
    """The kind of quantizer."""

    dtype: Annotated[Literal["float16", "bfloat16"], Decides("calibrate")] = "float16"
    """The type."""

    modules: Annotated[tuple[str, ...], AfterValidator(as_set), Decides("calibrate")] = ()
    """Submodules to change; by default the whole model."""

    exclude: Annotated[tuple[str, ...], AfterValidator(as_set), Decides("calibrate")] = ()
    """Submodules to leave in float32."""


QUANTIZER = Quantizer(
    "quantizer",
    "half",
    HalfPrecision,
    quantizing="modelbuild_rules.quantization.steps.half",
)
