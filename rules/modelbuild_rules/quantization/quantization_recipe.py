"""quantization_recipe: which operators of a model are quantized, and how."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from modelbuild.api import Attrs, Context, Extensible, Provider, rule
from modelbuild_rules.backend_api.quantizer import Quantizer
from modelbuild_rules.providers import QuantizationRecipe, QuantizerEntry


class QuantizationRecipeAttrs(Attrs):
    """A list of quantizers. Each operator of a model is quantized by the first that takes it."""

    quantizers: Annotated[tuple[Attrs, ...], Extensible("quantizer")] = Field(min_length=1)
    """Tables such as `{ type = "xnnpack" }`."""


EXAMPLE = """
[[quantization_recipe]]
name = "int8"
quantizers = [{ type = "xnnpack", mode = "static" }]
"""


@rule(attrs=QuantizationRecipeAttrs, example=EXAMPLE)
def quantization_recipe(ctx: Context[QuantizationRecipeAttrs]) -> tuple[Provider, ...]:
    entries = []
    for index, table in enumerate(ctx.attrs.quantizers):
        attributes = table.model_dump(mode="json")
        quantizer = ctx.extension("quantizer", attributes.pop("type"))
        assert isinstance(quantizer, Quantizer)
        if (found := quantizer.contradiction(table)) is not None:
            name, message = found
            raise ctx.error(("quantizers", index, name), message)
        entries.append(QuantizerEntry(quantizer, attributes))
    return (QuantizationRecipe(tuple(entries)),)
