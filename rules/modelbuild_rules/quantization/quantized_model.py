"""quantized_model: an exported model with quantized operators, which any program takes as its model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

from modelbuild.api import (
    Artifact,
    Attrs,
    Context,
    Dep,
    DerivedArtifact,
    Extensible,
    Files,
    LabelOf,
    Origin,
    Output,
    OutputGroups,
    Provider,
    Resources,
    Sources,
    rule,
)
from modelbuild.errors import did_you_mean
from modelbuild_rules.backend_api.preload import PRELOAD
from modelbuild_rules.method_names import FORWARD, named, phrase, qualified
from modelbuild_rules.model.contents import model_contents
from modelbuild_rules.model.inputs import MethodName
from modelbuild_rules.model.methods import by_method, methods_of, nearest, place_of
from modelbuild_rules.model.result_metric import ResultMetric
from modelbuild_rules.providers import (
    Dataset,
    EagerMethod,
    ExportedMethod,
    Model,
    ModelMethod,
    QuantizationRecipe,
)
from modelbuild_rules.quantization.quantization_recipe import recipe_name, recipe_of
from modelbuild_rules.quantization.report_command import GROUP
from modelbuild_rules.quantization.report_metrics import metric_entries, report_metrics
from modelbuild_rules.quantization.samples import sample_inputs
from modelbuild_rules.quantization.sensitivity import SensitivityActions

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import ModelParams, ResultMetricParams
    from modelbuild_rules.quantization.documents import RecipeParams, UsedQuantizer

_TOOLS = ("executorch", "numpy", "safetensors", "sympy", "torch", "torchao")
_READERS = ("pillow",)


class QuantizedModelAttrs(Attrs):
    """A model, quantized by a recipe after training."""

    renamed: ClassVar[Mapping[str, str]] = {"calibrations": "calibration"}

    model: Annotated[Dep, LabelOf(Model)]
    """A model in floating point. All its `methods` are quantized."""

    recipe: Annotated[Dep, LabelOf(QuantizationRecipe)] | Annotated[Attrs, Extensible("quantizer", by_name=False)]
    """A recipe, or its only table: `{ type = "half" }`."""

    calibration: Annotated[Dep, LabelOf(Dataset)] | dict[MethodName, Annotated[Dep, LabelOf(Dataset)]] | None = None
    """Typical inputs for observing ranges of activations, or a table of datasets by method. Required for static ranges,
    otherwise not read. Each sample starts with the initial state."""

    metrics: tuple[ResultMetric, ...] | dict[MethodName, tuple[ResultMetric, ...]] = ()
    """Metrics for `modelbuild quantize-report`, against floating point, or a table of metrics by method. The first
    ranks layers."""

    srcs: Sources = ()
    """Additional Python files: of other packages, or imported without an import statement."""


EXAMPLE = """
[[quantized_model]]
name = "net_int8"
model = ":net"
recipe = { type = "xnnpack" }
calibration = ":photos"
"""


@rule(attrs=QuantizedModelAttrs, example=EXAMPLE)
def quantized_model(ctx: Context[QuantizedModelAttrs]) -> tuple[Provider, ...]:
    attrs = ctx.attrs
    methods = methods_of(ctx, attrs.model)
    models = {name: each.exported for name, each in methods.items()}
    recipe = recipe_of(ctx, attrs.recipe)
    _check_model(ctx, models)
    data = {name: _calibration(ctx, name, recipe) for name in models}
    metrics = {name: report_metrics(ctx, name, each.eager) for name, each in methods.items()}
    made = {name: _Quantization(ctx, name, model, recipe, data[name]) for name, model in models.items()}
    quantized = {name: each.quantized() for name, each in made.items()}
    license = next((each.license for each in ctx.providers(attrs.model) if isinstance(each, Origin)), "")
    used = dict.fromkeys(file for each in data.values() if each is not None for file in each.sources)
    contents = model_contents(ctx.label.name, license, quantized, tuple(used))
    files = Files(tuple(file for each in quantized.values() for file in (each.signature, each.debug)))
    reports = OutputGroups({qualified(name, GROUP): (each.sensitivity(metrics[name]),) for name, each in made.items()})
    made_methods = {name: ModelMethod(each, _eager(methods[name].eager, each)) for name, each in quantized.items()}
    return Model(made_methods), files, contents, reports


def _check_model(ctx: Context[QuantizedModelAttrs], models: Mapping[str, ExportedMethod]) -> None:
    """Raise LoadingError for a model that cannot be quantized."""
    attrs = ctx.attrs
    if any(each.quantizers for each in models.values()):
        raise ctx.error("model", f"'{attrs.model}' is quantized already; expected a model in floating point")
    if any(each.kernels for each in models.values()):
        message = f"'{attrs.model}' calls operators of a kernel_library, which cannot be quantized"
        raise ctx.error("model", f"{message}; expected a model without 'kernels'")
    methods = list(models)
    for attribute, given, wanted in (
        ("calibration", attrs.calibration, "a dataset"),
        ("metrics", attrs.metrics, "metrics"),
    ):
        for name in given if isinstance(given, dict) else ():
            if name not in methods:
                raise ctx.error((attribute, name), f"'{attrs.model}' has no method '{name}'{nearest(name, methods)}")
        if given and not isinstance(given, dict) and methods != [FORWARD]:
            raise ctx.error(attribute, f"'{attrs.model}' has methods; expected a table with {wanted} of each")


def _calibration(ctx: Context[QuantizedModelAttrs], method: str, recipe: QuantizationRecipe) -> Dataset | None:
    """Return a method's calibration data. Raises LoadingError if a recipe that needs data has none."""
    attrs = ctx.attrs
    label = by_method(attrs.calibration, method)
    if label is not None:
        return ctx.provider(label, Dataset)
    if any(each.quantizer.needs_data(each.attributes) for each in recipe.quantizers):
        expected = "'calibration', a dataset" + ("" if method == FORWARD else f" of '{method}'")
        raise ctx.error(
            "recipe", f"'{recipe_name(attrs.recipe)}' observes the ranges of activations; expected {expected}"
        )
    return None


def _eager(given: EagerMethod | None, quantized: ExportedMethod) -> EagerMethod | None:
    """Return a quantized method in eager PyTorch; None if the module has none."""
    if given is None:
        return None
    inputs = {"exported.program": (quantized.program,), "exported.weights": (quantized.weights,), "srcs": ()}
    own: dict[str, Any] = {"entry": None, "kwargs": {}, "prepare": None, "weights": [], "call": None}
    params = cast("ModelParams", {**given.params, **own})
    return EagerMethod(inputs, params, (*given.tools, "torchao"))


class _Quantization:
    """The actions that quantize a method of a model."""

    def __init__(
        self,
        ctx: Context[QuantizedModelAttrs],
        method: str,
        model: ExportedMethod,
        recipe: QuantizationRecipe,
        data: Dataset | None,
    ) -> None:
        self._ctx, self._method, self._model, self._recipe, self._data = ctx, method, model, recipe, data
        self._of = phrase(method, ctx.attrs.model)
        self._by = recipe_name(ctx.attrs.recipe)
        self._program = {"program": model.program, "weights": model.weights, "modules": self._modules()}

    def quantized(self) -> ExportedMethod:
        """Return the quantized model."""
        observed = self._observed()
        made = self._ctx.action(
            "convert",
            name=named("convert", self._method),
            step="convert",
            inputs={
                **self._program,
                "examples": self._model.examples,
                **({"observed": observed} if observed else {}),
            },
            outputs=[
                Output("program", "program", "tree"),
                Output("weights", "weights", "tree"),
                Output("origins", "origins.json"),
            ],
            params=_params(self._recipe, calibrates=False),
            tools=_tools(self._recipe),
            plugins=_plugins(self._recipe),
            preload=PRELOAD,
            resources=Resources(memory=2 << 30),
            description=f"quantize {self._of} by {self._by}",
        )
        debug = self._ctx.action(
            "places",
            name=named("places", self._method),
            step="places",
            inputs={"origins": made["origins"], "debug": self._model.debug},
            outputs=[Output("debug", qualified(self._method, "debug.json"))],
            description=f"find the places of {self._ctx.label.name}",
        )["debug"]
        return replace(
            self._model,
            program=made["program"],
            weights=made["weights"],
            calls=self._expected(made["program"], made["weights"]),
            debug=debug,
            quantizers=self._recipe.quantizers,
        )

    def _expected(self, program: Artifact, weights: Artifact) -> Artifact:
        """Declare the action that computes the quantized program's results in eager mode; return its output."""
        return self._ctx.action(
            "expected",
            name=named("expected", self._method),
            step="expected",
            inputs={"program": program, "weights": weights, "calls": self._model.calls},
            outputs=[Output("calls", "calls", "tree")],
            tools=_tools(self._recipe),
            plugins=_plugins(self._recipe),
            preload=PRELOAD,
            resources=Resources(memory=2 << 30),
            description=f"compute the outputs of {self._of}, quantized by {self._by}",
        )["calls"]

    def _modules(self) -> Artifact:
        """Declare the action that lists the module of each node. It reads source lines but writes none, so a comment in
        the model's source does not repeat the calibration."""
        return self._ctx.action(
            "modules",
            name=named("modules", self._method),
            step="modules",
            inputs={"debug": self._model.debug},
            outputs=[Output("modules", "modules.json")],
            description=f"list the modules of {self._of}",
        )["modules"]

    def _observed(self) -> Artifact | None:
        """Declare the calibration; return the observed ranges, or None for a recipe that needs no data."""
        attrs = self._ctx.attrs
        if not any(each.quantizer.needs_data(each.attributes) for each in self._recipe.quantizers):
            return None
        data = self._data
        assert data is not None
        label = by_method(attrs.calibration, self._method)
        for name in self._model.inputs or () if data.files else ():
            if name not in data.files:
                hint = did_you_mean(name, data.files) or f"; it has {', '.join(data.files)}"
                place = place_of("calibration", attrs.calibration, self._method)
                raise self._ctx.error(place, f"'{label}' has no files of the input '{name}'{hint}")
        return self._ctx.action(
            "calibrate",
            name=named("calibrate", self._method),
            step="calibrate",
            inputs={**self._program, "signature": self._model.signature, **sample_inputs(data)},
            outputs=[Output("observed", "observed.safetensors")],
            params=_params(self._recipe, calibrates=True),
            tools=(*_tools(self._recipe), *_READERS),
            plugins=_plugins(self._recipe),
            preload=PRELOAD,
            resources=Resources(memory=2 << 30),
            description=f"calibrate {self._of} on {label}",
        )["observed"]

    def sensitivity(self, metrics: Sequence[ResultMetricParams]) -> DerivedArtifact:
        """Declare the report of each layer's error, with metrics."""
        attrs = self._ctx.attrs
        data = self._data
        actions = SensitivityActions(
            program=self._program,
            samples={"examples": self._model.examples} if data is None else sample_inputs(data),
            signature=self._model.signature,
            quantizers=_params(self._recipe, calibrates=False)["quantizers"],
            tools=(*_tools(self._recipe), *_READERS),
            plugins=_plugins(self._recipe),
            metrics=metrics,
            metric_srcs=self._ctx.files(metric_entries(attrs.metrics), attrs.srcs),
            model=self._of,
            method=self._method,
        )
        return actions.declare(self._ctx)


def _params(recipe: QuantizationRecipe, calibrates: bool) -> RecipeParams:
    """Return the parameters of the calibration, or of the conversion."""
    used: list[UsedQuantizer] = []
    for each in recipe.quantizers:
        own = each.quantizer
        attributes = own.attributes(each.attributes, calibrates)
        used.append({"kind": own.name, "quantizing": own.quantizing, "attributes": attributes})
    return {"quantizers": used}


def _tools(recipe: QuantizationRecipe) -> tuple[str, ...]:
    return (*_TOOLS, *(tool for each in recipe.quantizers for tool in each.quantizer.tools))


def _plugins(recipe: QuantizationRecipe) -> list[str]:
    return [each.quantizer.quantizing for each in recipe.quantizers]
