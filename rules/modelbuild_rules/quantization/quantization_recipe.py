"""quantization_recipe: which operators of a model are quantized, and how."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from modelbuild.api import Attrs, Context, Dep, Extensible, Provider, rule
from modelbuild_rules.backend_api.quantizer import Quantizer
from modelbuild_rules.model.inputs import Place
from modelbuild_rules.providers import QuantizationRecipe, QuantizerEntry


class QuantizationRecipeAttrs(Attrs):
    """Quantizers. The first that takes an operator of a model quantizes it."""

    quantizers: tuple[Annotated[Attrs, Extensible("quantizer")], ...] = Field(min_length=1)
    """The quantizers."""


EXAMPLE = """
[[quantization_recipe]]
name = "int8"
quantizers = [{ type = "xnnpack", operators = ["aten.conv2d.default"] }, "half"]
"""


@rule(attrs=QuantizationRecipeAttrs, example=EXAMPLE)
def quantization_recipe(ctx: Context[QuantizationRecipeAttrs]) -> tuple[Provider, ...]:
    tables = enumerate(ctx.attrs.quantizers)
    return (QuantizationRecipe(tuple(_entry(ctx, ("quantizers", index), table) for index, table in tables)),)


def recipe_of(ctx: Context[Any], given: Dep | Attrs) -> QuantizationRecipe:
    """Return the recipe of the attribute `recipe`: the label of a recipe, or the only quantizer of a recipe."""
    if isinstance(given, Attrs):
        return QuantizationRecipe((_entry(ctx, ("recipe",), given),))
    return ctx.provider(given, QuantizationRecipe)


def recipe_name(given: Dep | Attrs) -> str:
    """Return the label of a recipe, or the name of its quantizer, for messages."""
    return str(getattr(given, "type", given))


def _entry(ctx: Context[Any], place: Place, table: Attrs) -> QuantizerEntry:
    attributes = table.model_dump(mode="json")
    quantizer = ctx.extension("quantizer", attributes.pop("type"))
    assert isinstance(quantizer, Quantizer)
    if (found := quantizer.contradiction(table)) is not None:
        name, message = found
        raise ctx.error((*place, name), message)
    return QuantizerEntry(quantizer, attributes)
