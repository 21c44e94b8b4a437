"""The quantizer for CUDA: its table in a `quantization_recipe`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from modelbuild.api import Attrs
from modelbuild_rules.backend_api.backend import as_set
from modelbuild_rules.backend_api.decides import Decides
from modelbuild_rules.backend_api.quantizer import Quantizer


class CudaQuantizer(Attrs):
    """Weights of linear layers in 8 or 4 bits, for CUDA. Activations and products keep the model's type, such as
    float16."""

    type: Literal["cuda"]
    """The kind of quantizer."""

    weights: Annotated[Literal["int8", "int4"], Decides("convert")] = "int8"
    """The type of weights."""

    group_size: Annotated[int | None, Decides("convert")] = Field(default=None, ge=32, multiple_of=32)
    """With int4: number of input channels that share a scale; by default 32. With int8, an output channel has a
    scale."""

    modules: Annotated[tuple[str, ...], AfterValidator(as_set), Decides("convert")] = ()
    """Submodules to quantize; by default the whole model."""

    exclude: Annotated[tuple[str, ...], AfterValidator(as_set), Decides("convert")] = ()
    """Submodules to leave in floating point."""


class _CudaQuantizer(Quantizer):
    def contradiction(self, table: Attrs) -> tuple[str, str] | None:
        assert isinstance(table, CudaQuantizer)
        if table.group_size is not None and table.weights != "int4":
            return "group_size", 'int8 weights have a scale for each channel; expected weights = "int4" as well'
        return None


QUANTIZER = _CudaQuantizer(
    "quantizer",
    "cuda",
    CudaQuantizer,
    quantizing="modelbuild_rules.backends.cuda.steps.quantizing",
    backend="cuda",
)
