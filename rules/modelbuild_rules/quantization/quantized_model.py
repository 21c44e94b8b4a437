"""quantized_model: an exported model with quantized operators, which any program takes as its model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, cast

from modelbuild.api import (
    Artifact,
    Attrs,
    Context,
    Dep,
    Files,
    LabelOf,
    Origin,
    Output,
    Provider,
    Resources,
    Sensitivity,
    rule,
)
from modelbuild.errors import did_you_mean
from modelbuild_rules.model.contents import model_contents
from modelbuild_rules.providers import Dataset, EagerModel, ExportedModel, QuantizationRecipe
from modelbuild_rules.quantization.samples import sample_inputs
from modelbuild_rules.quantization.sensitivity import SensitivityActions

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import ModelParams
    from modelbuild_rules.quantization.documents import RecipeParams, UsedQuantizer

_TOOLS = ("executorch", "numpy", "safetensors", "sympy", "torch", "torchao")
_READERS = ("pillow",)
_PRELOAD = ("torch", "executorch.exir")


class QuantizedModelAttrs(Attrs):
    """A model, quantized after training by a recipe."""

    model: Annotated[Dep, LabelOf(ExportedModel)]
    """The model in floating point: a `torch_model`."""

    recipe: Annotated[Dep, LabelOf(QuantizationRecipe)]
    """The `quantization_recipe`."""

    calibration: Annotated[Dep, LabelOf(Dataset)] | None = None
    """A `dataset` of typical inputs, on which the ranges of activations are observed. Required for a recipe with static
    ranges; others do not read it."""


EXAMPLE = """
[[quantized_model]]
name = "net_int8"
model = ":net"
recipe = ":int8"
calibration = ":photos"
"""


@rule(attrs=QuantizedModelAttrs, example=EXAMPLE)
def quantized_model(ctx: Context[QuantizedModelAttrs]) -> tuple[Provider, ...]:
    attrs = ctx.attrs
    model = ctx.provider(attrs.model, ExportedModel)
    recipe = ctx.provider(attrs.recipe, QuantizationRecipe)
    if model.quantizers:
        raise ctx.error("model", f"'{attrs.model}' is quantized already; expected a model in floating point")
    if model.kernels:
        message = f"'{attrs.model}' calls operators of a kernel_library, which cannot be quantized"
        raise ctx.error("model", f"{message}; expected a model without 'kernels'")
    program = {"program": model.program, "weights": model.weights, "modules": _modules(ctx, model)}
    observed = _observed(ctx, model, recipe, program)
    made = ctx.action(
        "convert",
        step="convert",
        inputs={**program, "examples": model.examples, **({"observed": observed} if observed else {})},
        outputs=[
            Output("program", "program", "tree"),
            Output("weights", "weights", "tree"),
            Output("origins", "origins.json"),
        ],
        params=_params(recipe, calibrates=False),
        tools=_tools(recipe),
        plugins=_plugins(recipe),
        preload=_PRELOAD,
        resources=Resources(memory=2 << 30),
        description=f"quantize {attrs.model} by {attrs.recipe}",
    )
    debug = ctx.action(
        "places",
        step="places",
        inputs={"origins": made["origins"], "debug": model.debug},
        outputs=[Output("debug", "debug.json")],
        description=f"find the places of {ctx.label.name}",
    )["debug"]
    quantized = replace(
        model, program=made["program"], weights=made["weights"], debug=debug, quantizers=recipe.quantizers
    )
    license = next((each.license for each in ctx.providers(attrs.model) if isinstance(each, Origin)), "")
    data = () if attrs.calibration is None else ctx.provider(attrs.calibration, Dataset).sources
    contents = model_contents(ctx.label.name, license, quantized, data)
    files = Files((quantized.signature, quantized.debug))
    return quantized, *_eager(ctx, quantized), files, contents, _sensitivity(ctx, model, recipe, program)


def _modules(ctx: Context[QuantizedModelAttrs], model: ExportedModel) -> Artifact:
    """Declare the action that lists the module of each node. It reads source lines, and its output has none, so a
    comment in the model's source calibrates nothing again."""
    return ctx.action(
        "modules",
        step="modules",
        inputs={"debug": model.debug},
        outputs=[Output("modules", "modules.json")],
        description=f"list the modules of {ctx.attrs.model}",
    )["modules"]


def _observed(
    ctx: Context[QuantizedModelAttrs],
    model: ExportedModel,
    recipe: QuantizationRecipe,
    program: Mapping[str, Artifact],
) -> Artifact | None:
    """Declare the calibration, and return the observed ranges; None for a recipe that needs no data."""
    if not any(each.quantizer.needs_data(each.attributes) for each in recipe.quantizers):
        return None
    if ctx.attrs.calibration is None:
        message = f"'{ctx.attrs.recipe}' observes the ranges of activations; expected 'calibration', a dataset"
        raise ctx.error("recipe", message)
    data = ctx.provider(ctx.attrs.calibration, Dataset)
    for name in model.inputs or () if data.files else ():
        if name not in data.files:
            hint = did_you_mean(name, data.files) or f"; it has {', '.join(data.files)}"
            raise ctx.error("calibration", f"'{ctx.attrs.calibration}' has no files of the input '{name}'{hint}")
    return ctx.action(
        "calibrate",
        step="calibrate",
        inputs={**program, "signature": model.signature, **sample_inputs(data)},
        outputs=[Output("observed", "observed.safetensors")],
        params=_params(recipe, calibrates=True),
        tools=(*_tools(recipe), *_READERS),
        plugins=_plugins(recipe),
        preload=_PRELOAD,
        resources=Resources(memory=2 << 30),
        description=f"calibrate {ctx.attrs.model} on {ctx.attrs.calibration}",
    )["observed"]


def _sensitivity(
    ctx: Context[QuantizedModelAttrs],
    model: ExportedModel,
    recipe: QuantizationRecipe,
    program: Mapping[str, Artifact],
) -> Sensitivity:
    """Declare the report about the error of each layer."""
    data = None if ctx.attrs.calibration is None else ctx.provider(ctx.attrs.calibration, Dataset)
    actions = SensitivityActions(
        program=program,
        samples={"examples": model.examples} if data is None else sample_inputs(data),
        signature=model.signature,
        quantizers=_params(recipe, calibrates=False)["quantizers"],
        tools=(*_tools(recipe), *_READERS),
        plugins=_plugins(recipe),
        model=str(ctx.attrs.model),
    )
    return Sensitivity(actions.declare(ctx))


def _params(recipe: QuantizationRecipe, calibrates: bool) -> RecipeParams:
    """Return the parameters of the calibration, or of the conversion."""
    used: list[UsedQuantizer] = []
    for each in recipe.quantizers:
        own = each.quantizer
        names = own.observe if calibrates else (*own.observe, *own.convert)
        attributes = {name: each.attributes[name] for name in names}
        used.append({"kind": own.name, "quantizing": own.quantizing, "attributes": attributes})
    return {"quantizers": used}


def _eager(ctx: Context[QuantizedModelAttrs], quantized: ExportedModel) -> tuple[Provider, ...]:
    """Return the quantized model in eager PyTorch; nothing if the model in floating point has no such provider."""
    for given in ctx.providers(ctx.attrs.model):
        if isinstance(given, EagerModel):
            inputs = {"exported.program": (quantized.program,), "exported.weights": (quantized.weights,), "srcs": ()}
            own: dict[str, Any] = {"entry": None, "kwargs": {}, "prepare": None, "weights": [], "call": None}
            params = cast("ModelParams", {**given.params, **own})
            return (EagerModel(inputs, params, (*given.tools, "torchao")),)
    return ()


def _tools(recipe: QuantizationRecipe) -> tuple[str, ...]:
    return (*_TOOLS, *(tool for each in recipe.quantizers for tool in each.quantizer.tools))


def _plugins(recipe: QuantizationRecipe) -> list[str]:
    return [each.quantizer.quantizing for each in recipe.quantizers]
