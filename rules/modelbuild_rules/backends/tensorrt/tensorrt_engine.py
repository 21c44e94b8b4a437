"""tensorrt_engine: an engine that was built elsewhere, for example with trtexec on the device."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from modelbuild.api import Attrs, Context, Files, Output, Provider, Resources, Source, rule
from modelbuild.errors import did_you_mean
from modelbuild_rules.backend_api.backend import Backend, DeviceFacts, Values
from modelbuild_rules.backend_api.decides import Decides
from modelbuild_rules.device.device_target import Capability
from modelbuild_rules.files.origin import OriginAttrs
from modelbuild_rules.method_names import FORWARD
from modelbuild_rules.model.contents import model_contents
from modelbuild_rules.model.export_action import EXPORT_TOOLS, declare_export
from modelbuild_rules.providers import CompiledModule, Model, ModelMethod, StackEntry

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import PartParams, PartTensor

EngineDType = Literal["bool", "uint8", "int8", "int32", "int64", "float16", "bfloat16", "float32"]

_NAME = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)


def _version(text: str) -> str:
    if not re.fullmatch(r"\d{1,3}\.\d{1,3}\.\d{1,3}", text, re.ASCII):
        raise ValueError(f"'{text}' is not a version of TensorRT; expected three numbers, such as 8.6.1")
    return text


class EngineTensor(Attrs):
    """An input or output of an engine."""

    name: str
    """Its name in the program."""

    binding: str | None = Field(default=None, min_length=1)
    """Its name in the engine; by default `name`."""

    shape: tuple[int | str, ...]
    """Sizes. A name refers to a dimension of `profiles`."""

    dtype: EngineDType
    """The type of its elements."""


class EngineInput(EngineTensor):
    """An input of an engine."""

    range: tuple[float, float] | None = None
    """Lowest and highest example value; by default 0 and 1."""


class Sizes(Attrs):
    """The sizes of a dimension in an optimization profile."""

    min: int = Field(ge=0)
    """The smallest size."""

    opt: int
    """The size to optimize for."""

    max: int
    """The largest size."""


class TensorrtEngineAttrs(OriginAttrs):
    """An engine that TensorRT built on the device: the model of a `pte_program`, or a submodule of it.

    The build compares its attributes with the file's header, and the runtime with the engine.
    """

    renamed: ClassVar[Mapping[str, str]] = {"compute_capability": "compute_capabilities"}

    plan: Source
    """A `.plan` or `.engine` file, as `trtexec --saveEngine` writes it."""

    version: Annotated[str, AfterValidator(_version)]
    """The TensorRT version that built it, such as "8.6.1"."""

    compute_capabilities: tuple[Capability, ...] = Field(min_length=1)
    """Compute capabilities of the GPUs that it runs on: the capability of the GPU that built it."""

    arch: Literal["x86_64", "aarch64"] = "x86_64"
    """The architecture of the machine that built it."""

    inputs: tuple[EngineInput, ...] = Field(min_length=1)
    """Its inputs, in the order of the module's arguments."""

    outputs: tuple[EngineTensor, ...] = Field(min_length=1)
    """Its outputs."""

    profiles: tuple[dict[str, Sizes], ...] = ()
    """Its optimization profiles: the sizes of each named dimension."""

    version_compatible: bool = False
    """It was built version-compatible: newer versions of TensorRT and the lean runtime also run it."""

    host_code: bool = False
    """Let TensorRT load the lean runtime in the engine: native code, for files that you trust."""

    gpu: int = Field(default=0, ge=0, le=127)
    """Index of the device's GPU that runs the program."""


class _EnginePart(Attrs):
    """The table of an engine in a stack. No BUILD file contains it."""

    part: Annotated[str, Decides("partition")]
    target_device: Annotated[str, Decides("partition")]
    arch: Annotated[str, Decides()]
    compute_capabilities: Annotated[tuple[str, ...], Decides()]


@dataclass(frozen=True)
class EngineBackend(Backend):
    """A backend that takes the calls of one engine."""

    def problem(self, attributes: Values, facts: DeviceFacts) -> str:
        if facts["arch"] != attributes["arch"]:
            return f"the engine was built for {attributes['arch']}; expected a device with that arch"
        other = [each for each in facts["compute_capabilities"] if each not in attributes["compute_capabilities"]]
        built = ", ".join(attributes["compute_capabilities"])
        if other or not facts["compute_capabilities"]:
            found = f"compute capability {', '.join(other)}" if other else "no compute capability"
            return f"the engine was built for compute capability {built}; the device has {found}"
        return ""

    def compile_attributes(self, attributes: Values, facts: DeviceFacts) -> dict[str, Any]:
        return {}


EXAMPLE = """
[[tensorrt_engine]]
name = "net_engine"
plan = "net.plan"
version = "8.6.1"
compute_capabilities = ["8.6"]
inputs = [{ name = "image", shape = [1, 3, 224, 224], dtype = "float32" }]
outputs = [{ name = "scores", shape = [1, 1000], dtype = "float32" }]
"""


@rule(attrs=TensorrtEngineAttrs, example=EXAMPLE)
def tensorrt_engine(ctx: Context[TensorrtEngineAttrs]) -> tuple[Provider, ...]:
    attrs = ctx.attrs
    _check(ctx)
    inputs, outputs = tuple(map(_tensor, attrs.inputs)), tuple(map(_tensor, attrs.outputs))
    made = ctx.action(
        "engine",
        step="prebuilt_engine",
        inputs={"plan": ctx.file(attrs.plan)},
        outputs=[Output("compiled", "compiled", "tree")],
        params=attrs.model_dump(mode="json", exclude=_UNKEYED),
        unkeyed={"places": {name: str(ctx.error(name, "").location) for name in _CHECKED}},
        resources=Resources(memory=128 << 20),
        description=f"check the engine {attrs.plan}",
    )
    backend = EngineBackend(
        "backend",
        "tensorrt_engine",
        _EnginePart,
        partitioning="modelbuild_rules.backends.tensorrt.steps.prebuilt_partitioning",
        compiling="modelbuild_rules.backends.tensorrt.steps.prebuilt_compile",
        device=("arch", "compute_capabilities"),
    )
    attributes = {
        "part": "",
        "target_device": f"cuda:{attrs.gpu}",
        "arch": attrs.arch,
        "compute_capabilities": list(attrs.compute_capabilities),
    }
    module = CompiledModule(StackEntry(backend, attributes, {"engine": made["compiled"]}), inputs, outputs)
    model = declare_export(ctx, {}, _params(attrs, inputs, outputs), EXPORT_TOOLS, f"the engine {attrs.plan}")
    origin = attrs.origin((ctx.file(attrs.plan),))
    contents = model_contents(ctx.label.name, origin.license, {FORWARD: model}, ())
    return Model({FORWARD: ModelMethod(model)}), module, Files((model.signature,)), origin, contents


# Attributes that are not parameters of the step.
_UNKEYED: Any = {"plan": True, "license": True, "source": True, "inputs": {"__all__": {"range"}}}

_CHECKED = ("plan", "version", "compute_capabilities")


def _tensor(declared: EngineTensor) -> PartTensor:
    return {"name": declared.name, "dtype": declared.dtype, "shape": list(declared.shape)}


def _params(attrs: TensorrtEngineAttrs, inputs: tuple[PartTensor, ...], outputs: tuple[PartTensor, ...]) -> PartParams:
    """Return the parameters of the export of a program that consists of the engine."""
    dynamic = {
        name: dict(zip(("min", "max"), _range(attrs, name), strict=True)) | {"example": None}
        for name in (attrs.profiles[0] if attrs.profiles else ())
    }
    declared = [{**_tensor(each), "range": each.range} for each in attrs.inputs]
    interface = {"id": "", "name": "the engine", "inputs": list(inputs), "outputs": list(outputs)}
    params: Any = {
        "entry": None,
        "method": FORWARD,
        "kwargs": {},
        "prepare": None,
        "weights": [],
        "allow_missing": False,
        "inputs": declared,
        "call": None,
        "dynamic": dynamic,
        "outputs": [each.name for each in attrs.outputs],
        "seed": 0,
        "parts": {"": interface},
    }
    checked: PartParams = params
    return checked


def _range(attrs: TensorrtEngineAttrs, name: str) -> tuple[int, int]:
    """Return the least and the greatest size of a dimension in all profiles."""
    sizes = [profile[name] for profile in attrs.profiles]
    return min(size.min for size in sizes), max(size.max for size in sizes)


def _check(ctx: Context[TensorrtEngineAttrs]) -> None:
    attrs = ctx.attrs
    for index, profile in enumerate(attrs.profiles):
        _check_profile(ctx, index, profile)
    dimensions = attrs.profiles[0] if attrs.profiles else {}
    named: dict[str, str] = {}
    for attribute, tensors in (("inputs", attrs.inputs), ("outputs", attrs.outputs)):
        for index, each in enumerate(tensors):
            names = [other.name for other in tensors[:index]]
            if not _NAME.match(each.name) or each.name in names:
                raise ctx.error((attribute, index, "name"), f"expected names, each once, got '{each.name}'")
            binding = each.binding or each.name
            if binding in named:
                message = f"the binding '{binding}' is {named[binding]} already; expected each once"
                raise ctx.error((attribute, index, "binding" if each.binding else "name"), message)
            named[binding] = f"of '{each.name}'"
            for size in each.shape:
                if isinstance(size, str) and size not in dimensions:
                    hint = did_you_mean(size, dimensions) or "; expected a dimension of 'profiles'"
                    raise ctx.error((attribute, index, "shape"), f"no profile has the dimension '{size}'{hint}")
                if isinstance(size, int) and size < 0:
                    raise ctx.error((attribute, index, "shape"), f"expected sizes of 0 or more, got {size}")
    used = {size for each in attrs.inputs for size in each.shape}
    for name in dimensions:
        low, high = _range(attrs, name)
        if low == high:
            message = f"dimension '{name}' is always {low}; expected a number in 'shape'"
            raise ctx.error(("profiles", 0, name), message)
        if name not in used:
            raise ctx.error(("profiles", 0, name), f"no input has the dimension '{name}'")
    if attrs.host_code and not attrs.version_compatible:
        message = "only version-compatible engines contain code; expected version_compatible = true as well"
        raise ctx.error("host_code", message)
    for index, each in enumerate(attrs.inputs):
        if each.range and not each.range[0] <= each.range[1]:
            raise ctx.error(("inputs", index, "range"), f"expected [lowest, highest], got {[*each.range]}")


def _check_profile(ctx: Context[TensorrtEngineAttrs], index: int, profile: Mapping[str, Sizes]) -> None:
    first = ctx.attrs.profiles[0]
    if profile.keys() != first.keys():
        message = f"expected the dimensions of the first profile: {', '.join(first)}"
        raise ctx.error(("profiles", index), message)
    for name, size in profile.items():
        if not _NAME.match(name):
            raise ctx.error(("profiles", index, name), f"dimension '{name}': expected a name of letters, digits and _")
        if not size.min <= size.opt <= size.max:
            raise ctx.error(
                ("profiles", index, name),
                f"dimension '{name}': expected min <= opt <= max, got {size.min}, {size.opt} and {size.max}",
            )
    if not profile:
        raise ctx.error(("profiles", index), "expected the sizes of one or more dimensions")
