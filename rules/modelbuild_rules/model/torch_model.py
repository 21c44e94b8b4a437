"""torch_model: a PyTorch module with weights and declared inputs, exported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NotRequired, TypedDict, cast

from pydantic import Field

from modelbuild.api import (
    Artifact,
    Context,
    Dep,
    Entry,
    Files,
    LabelOf,
    Provider,
    Source,
    Sources,
    rule,
)
from modelbuild_rules.distributions import Distribution
from modelbuild_rules.files.origin import OriginAttrs
from modelbuild_rules.kernels.libraries import eager_files, given_libraries
from modelbuild_rules.method_names import FORWARD
from modelbuild_rules.model.call import parse_call
from modelbuild_rules.model.contents import model_contents
from modelbuild_rules.model.export_action import EXPORT_TOOLS, declare_export
from modelbuild_rules.model.inputs import (
    Dynamic,
    Interface,
    Method,
    MethodName,
    ModelInput,
    Place,
    check_inputs,
    check_names,
    check_suffix,
    dynamic_dimensions,
)
from modelbuild_rules.providers import EagerMethod, KernelLibrary, Model, ModelMethod

if TYPE_CHECKING:
    from modelbuild_rules.kernels.documents import GivenLibrary
    from modelbuild_rules.model.documents import Call, DeclaredInput, ModelParams

_WEIGHTS = (".safetensors", ".pt", ".pth", ".bin")


class TorchModelAttrs(OriginAttrs):
    """A PyTorch module in evaluation mode, exported by `torch.export` with example inputs."""

    renamed: ClassVar[Mapping[str, str]] = {"archive": "exported"}

    entry: Entry | None = None
    """`file.py:name` of a class or function that returns the module when called with `kwargs`."""

    exported: Source | None = None
    """A file of torch.export.save (`.pt2`) or torch.jit.save, instead of `entry`."""

    srcs: Sources = ()
    """Additional Python files: of other packages, or imported without an import statement."""

    kwargs: dict[str, bool | int | float | str | list[bool | int | float | str]] = Field(default_factory=dict)
    """Arguments of the function or class."""

    prepare: Entry | None = None
    """`file.py:name` of a function that gets the module and example arguments before weights are loaded, for example
    for lazy parameters. It may return another module."""

    weights: Source | dict[str, Source] | None = None
    """A state dict: `.safetensors`, or `.pt` (read with weights_only). A table has files by submodule."""

    allow_missing: bool = False
    """Let parameters that no file contains keep their initial values, which depend on `seed`."""

    data: Sources = ()
    """Other files that the code reads: files of the workspace at their paths, files of targets at
    `PACKAGE/TARGET/NAME`, as below `modelbuild-out/DEVICE`."""

    inputs: tuple[ModelInput, ...] = ()
    """The program's inputs, in order; without `call` also the arguments of `forward`, by position."""

    call: str | None = None
    """The arguments of `forward` as a Python call: names are inputs, everything else is constant."""

    dynamic: dict[str, Dynamic | str] = Field(default_factory=dict)
    """Dynamic dimensions by name. A text is a multiple or sum of others: `"8*h8"`, `"past + new"`."""

    outputs: tuple[str, ...] | None = None
    """Names of the outputs, in order."""

    methods: dict[MethodName, Method] = Field(default_factory=dict)
    """Instead of `inputs`: the module's methods, such as `prefill` and `decode`, which share the weights."""

    seed: int = 0
    """Seed of torch, random and numpy.random for the module and the example inputs."""

    kernels: tuple[Annotated[Dep, LabelOf(KernelLibrary)], ...] = ()
    """Libraries of operators that the module calls. Their Python files are among `srcs`."""

    requires: tuple[Distribution, ...] = ()
    """Distributions that the code uses without import statements."""


EXAMPLE = """
[[torch_model]]
name = "net"
entry = "net.py:Net"
weights = "net.safetensors"
inputs = [{ name = "image", shape = [1, 3, 224, 224], dtype = "float32", range = [0, 255] }]
"""


@rule(attrs=TorchModelAttrs, example=EXAMPLE)
def torch_model(ctx: Context[TorchModelAttrs]) -> tuple[Provider, ...]:
    attrs = ctx.attrs
    kernels = _kernels(ctx)
    if (attrs.entry is None) == (attrs.exported is None):
        raise ctx.error("entry", "expected either 'entry' or 'exported'")
    entries = [each for each in (attrs.entry, attrs.prepare) if each is not None]
    srcs = tuple(dict.fromkeys((*ctx.files(entries, attrs.srcs), *eager_files(kernels))))
    if attrs.exported is not None and attrs.kwargs:
        raise ctx.error("kwargs", "'kwargs' are arguments of an entry; expected none with 'exported'")
    weights = _weights(ctx)
    inputs: dict[str, tuple[Artifact, ...]] = {
        "srcs": srcs,
        "data": ctx.files(attrs.data),
        **({"archive": (ctx.file(attrs.exported),)} if attrs.exported is not None else {}),
        **{f"weights.{prefix}": (artifact,) for prefix, artifact in weights.items()},
    }
    module: _Module = {
        "entry": attrs.entry and ctx.entry(attrs.entry),
        "kwargs": attrs.kwargs,
        "prepare": attrs.prepare and ctx.entry(attrs.prepare),
        "weights": sorted(weights),
        "allow_missing": attrs.allow_missing,
        "seed": attrs.seed,
    }
    if kernels:
        module["kernels"] = given_libraries(kernels)
    tools = (*EXPORT_TOOLS, *attrs.requires, *(tool for each in kernels for tool in each.tools))
    methods: dict[str, ModelMethod] = {}
    for method, interface in _interfaces(ctx).items():
        params = _params(ctx, module, method, interface)
        examples: dict[str, tuple[Artifact, ...]] = {
            f"example.{i}": (ctx.file(each.file),) for i, each in enumerate(interface.inputs) if each.file
        }
        model = declare_export(ctx, inputs | examples, params, tools, str(attrs.entry or attrs.exported), kernels)
        # In eager mode, only a function that prepares the module gets example inputs.
        eager = inputs | examples if attrs.prepare else inputs
        methods[method] = ModelMethod(model, EagerMethod(eager, params, tools, examples))
    exported = {method: each.exported for method, each in methods.items()}
    origin = attrs.origin(artifact for given in inputs.values() for artifact in given)
    contents = model_contents(ctx.label.name, origin.license, exported, inputs["data"])
    files = Files(tuple(file for each in exported.values() for file in (each.signature, each.debug)))
    return Model(methods), files, origin, contents


class _Module(TypedDict):
    """The parameters of all methods of a module."""

    entry: str | None
    kwargs: Mapping[str, Any]
    prepare: str | None
    weights: Sequence[str]
    allow_missing: bool
    seed: int
    kernels: NotRequired[Sequence[GivenLibrary]]


def _interfaces(ctx: Context[TorchModelAttrs]) -> Mapping[str, Interface]:
    """Return the inputs and outputs of each method by name, in the names' order."""
    attrs = ctx.attrs
    if not attrs.methods:
        if not attrs.inputs:
            raise ctx.error("inputs", "expected either 'inputs', or 'methods' with inputs of their own")
        return {FORWARD: attrs}
    for name in ("inputs", "call", "dynamic", "outputs"):
        if getattr(attrs, name):
            raise ctx.error(name, f"each of the 'methods' has its own '{name}'; expected none beside them")
    if attrs.exported is not None:
        raise ctx.error("methods", "an exported program has the method forward alone; expected 'entry', or 'inputs'")
    return {name: attrs.methods[name] for name in sorted(attrs.methods)}


def _params(ctx: Context[TorchModelAttrs], module: _Module, method: str, interface: Interface) -> ModelParams:
    """Return the parameters of a method."""
    place: Place = ("methods", method) if ctx.attrs.methods else ()
    dynamic = dynamic_dimensions(ctx, interface.dynamic, place)
    check_inputs(ctx, interface.inputs, dynamic, place)
    call = _call(ctx, interface, place)
    check_names(ctx, "outputs", interface.outputs or (), place)
    return {
        **module,
        "method": method,
        "inputs": [cast("DeclaredInput", each.model_dump(mode="json", exclude={"file"})) for each in interface.inputs],
        "call": call,
        "dynamic": dynamic,
        "outputs": interface.outputs and list(interface.outputs),
    }


def _kernels(ctx: Context[TorchModelAttrs]) -> tuple[KernelLibrary, ...]:
    """Return the kernel libraries. Raises LoadingError for two libraries that a program cannot distinguish."""
    found: list[KernelLibrary] = []
    for index, dep in enumerate(ctx.attrs.kernels):
        library = ctx.provider(dep, KernelLibrary)
        for other in found:
            if other.name == library.name:
                raise ctx.error(("kernels", index), f"two kernel libraries are called '{library.name}'; expected one")
            if both := set(other.operators).intersection(library.operators):
                message = f"'{dep}' and the library {other.name} both have kernels of {', '.join(sorted(both))}"
                raise ctx.error(("kernels", index), f"{message}; expected one for each operator")
        found.append(library)
    return tuple(found)


def _weights(ctx: Context[TorchModelAttrs]) -> Mapping[str, Artifact]:
    """Return weights files by prefix; the prefix '' is the whole module."""
    given = ctx.attrs.weights
    if given is None:
        return {}
    table = given if isinstance(given, dict) else {"": given}
    for prefix, source in table.items():
        path: tuple[str | int, ...] = ("weights", prefix) if prefix else ("weights",)
        check_suffix(ctx, path, source, _WEIGHTS)
        if not all(part.isidentifier() or part.isdecimal() for part in prefix.split(".") if prefix):
            raise ctx.error(path, f"attribute 'weights': '{prefix}' is not a submodule's name")
    return {prefix: ctx.file(source) for prefix, source in table.items()}


def _call(ctx: Context[TorchModelAttrs], interface: Interface, place: Place) -> Call | None:
    if interface.call is None:
        return None
    try:
        return parse_call(interface.call, [each.name for each in interface.inputs])
    except ValueError as problem:
        raise ctx.error((*place, "call"), f"attribute 'call': {problem}") from None
