"""torch_model: a PyTorch module with weights and declared inputs, exported."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Literal, cast

from pydantic import Field

from modelbuild.api import (
    Artifact,
    Attrs,
    Context,
    Files,
    LoadingError,
    Provider,
    Source,
    SourceArtifact,
    Sources,
    rule,
)
from modelbuild.errors import did_you_mean
from modelbuild_rules.distributions import Distribution
from modelbuild_rules.model.call import parse_call
from modelbuild_rules.model.export_action import EXPORT_TOOLS, declare_export
from modelbuild_rules.model.sizes import parse_size
from modelbuild_rules.providers import EagerModel

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import Call, DeclaredInput, DynamicDimension, ModelParams

# The values of each integer type.
_BOUNDS = {f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)} | {"uint8": (0, 255)}

DType = Literal["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]

_ENTRY = re.compile(r"(?P<file>[\w./-]+\.py):(?P<name>[A-Za-z_]\w*)\Z")
_NAME = re.compile(r"[A-Za-z_]\w*\Z")
_WEIGHTS = (".safetensors", ".pt", ".pth", ".bin")
_EXAMPLES = (".npy", ".pt", ".png")


class Dynamic(Attrs):
    """A dimension whose size is known only when the program runs."""

    min: int = Field(ge=0)
    max: int
    example: int | None = None
    """The size in the example inputs; by default 2, or the nearest allowed size."""

    auto: bool = False
    """Let torch.export find how the size depends on others, or that it is constant."""


class ModelInput(Attrs):
    """An input, in the order of the module's `forward`. Set either `shape` and `dtype`, or `file`."""

    name: str
    shape: tuple[int | str, ...] | None = None
    """Sizes. A name refers to a dimension of the table `dynamic`; equal names have equal sizes."""

    dtype: DType | None = None
    range: tuple[float, float] | None = None
    """Lowest and highest example value, to which 0 and 255 of a picture are mapped. By default 0 and 1."""

    file: Source | None = None
    """An example: `.npy`, `.pt` (a tensor), or `.png` (uint8, rows x columns x channels)."""


class TorchModelAttrs(Attrs):
    """A PyTorch module in evaluation mode, exported by `torch.export` with example inputs."""

    entry: str | None = None
    """`file.py:name` of a class or function that returns the module when called with `kwargs`."""

    archive: Source | None = None
    """A file of torch.export.save (`.pt2`) or torch.jit.save, in place of `entry`."""

    srcs: Sources = ()
    """The module's Python files. They import each other by workspace path, or by name within one folder."""

    kwargs: dict[str, bool | int | float | str | list[bool | int | float | str]] = Field(default_factory=dict)
    """Arguments of the entry."""

    prepare: str | None = None
    """`file.py:name` of a function that is called with the module and example arguments before weights are loaded, for
    example to run a module with lazy parameters once. It may return another module."""

    weights: Source | dict[str, Source] | None = None
    """A state dict: `.safetensors`, or `.pt` (read with weights_only); or a table of such files by submodule."""

    allow_missing: bool = False
    """Let parameters that are in no weights file keep their initial values, which depend on `seed`."""

    data: Sources = ()
    """Other files that the code reads, at their workspace paths."""

    inputs: tuple[ModelInput, ...] = Field(min_length=1)
    """The program's inputs, in order; without `call` also the arguments of `forward`, by position."""

    call: str | None = None
    """The arguments of `forward`, as Python writes a call: names are inputs, everything else is constant."""

    dynamic: dict[str, Dynamic | str] = Field(default_factory=dict)
    """Dimensions of variable size, by name. A text is a multiple or sum of others: `"8*h8"`, `"past + new"`."""

    outputs: tuple[str, ...] | None = None
    """Names of the outputs, in order."""

    seed: int = 0
    """Seed of torch, random and numpy.random when the module is made, and of the example inputs."""

    requires: tuple[Distribution, ...] = ()
    """Distributions that the code imports in other ways than by import statements."""


@rule(attrs=TorchModelAttrs)
def torch_model(ctx: Context[TorchModelAttrs]) -> tuple[Provider, ...]:
    attrs = ctx.attrs
    srcs = ctx.files(attrs.srcs)
    if (attrs.entry is None) == (attrs.archive is None):
        raise ctx.error("entry", "expected either 'entry' with 'srcs', or 'archive'")
    if attrs.archive is not None and attrs.kwargs:
        raise ctx.error("kwargs", "'kwargs' are arguments of an entry; expected none with 'archive'")
    weights = _weights(ctx)
    dynamic = _dynamic(ctx)
    _check_inputs(ctx, dynamic)
    call = _call(ctx)
    _check_names(ctx, "outputs", attrs.outputs or ())
    inputs: dict[str, tuple[Artifact, ...]] = {
        "srcs": srcs,
        "data": ctx.files(attrs.data),
        **({"archive": (ctx.file(attrs.archive),)} if attrs.archive is not None else {}),
        **{f"weights.{prefix}": (artifact,) for prefix, artifact in weights.items()},
    }
    params: ModelParams = {
        "entry": _function(ctx, "entry", attrs.entry, srcs),
        "kwargs": attrs.kwargs,
        "prepare": _function(ctx, "prepare", attrs.prepare, srcs),
        "weights": sorted(weights),
        "allow_missing": attrs.allow_missing,
        "inputs": [cast("DeclaredInput", each.model_dump(mode="json", exclude={"file"})) for each in attrs.inputs],
        "call": call,
        "dynamic": dynamic,
        "outputs": attrs.outputs and list(attrs.outputs),
        "seed": attrs.seed,
    }
    tools = (*EXPORT_TOOLS, *attrs.requires)
    examples: dict[str, tuple[Artifact, ...]] = {
        f"example.{i}": (ctx.file(each.file),) for i, each in enumerate(attrs.inputs) if each.file
    }
    name = str(attrs.entry or attrs.archive)
    model = declare_export(ctx, inputs | examples, params, tools, name)
    # Only a function that prepares the module gets example inputs in eager mode too.
    eager = inputs | examples if attrs.prepare else inputs
    return model, EagerModel(eager, params, tools, examples), Files((model.signature, model.debug))


def _function(
    ctx: Context[TorchModelAttrs], attribute: str, written: str | None, srcs: tuple[Artifact, ...]
) -> str | None:
    """Return a function of the sources as `path/in/workspace.py:name`."""
    if written is None:
        return None
    match = _ENTRY.match(written)
    if match is None:
        raise ctx.error(attribute, f"attribute '{attribute}': expected 'file.py:name', got '{written}'")
    path = f"{ctx.label.package}/{match['file']}".lstrip("/")
    if SourceArtifact(path) not in srcs:
        own = [a.path.removeprefix(f"{ctx.label.package}/") for a in srcs if isinstance(a, SourceArtifact)]
        hint = did_you_mean(match["file"], own)
        raise ctx.error(attribute, f"attribute '{attribute}': '{match['file']}' is not among the srcs{hint}")
    return f"{path}:{match['name']}"


def _weights(ctx: Context[TorchModelAttrs]) -> Mapping[str, Artifact]:
    """Return weights files by prefix; the prefix '' is the whole module."""
    given = ctx.attrs.weights
    if given is None:
        return {}
    table = given if isinstance(given, dict) else {"": given}
    for prefix, source in table.items():
        path: tuple[str | int, ...] = ("weights", prefix) if prefix else ("weights",)
        _check_suffix(ctx, path, source, _WEIGHTS)
        if not all(part.isidentifier() or part.isdecimal() for part in prefix.split(".") if prefix):
            raise ctx.error(path, f"attribute 'weights': '{prefix}' is not a submodule's name")
    return {prefix: ctx.file(source) for prefix, source in table.items()}


def _check_suffix(
    ctx: Context[TorchModelAttrs], path: tuple[str | int, ...], source: Source, allowed: tuple[str, ...]
) -> None:
    if not source.is_label and not source.endswith(allowed):
        raise ctx.error(path, f"'{source}': expected a file ending in {', '.join(allowed)}")


def _dynamic(ctx: Context[TorchModelAttrs]) -> dict[str, DynamicDimension]:
    """Return the dynamic dimensions, those that depend on others with the bounds that follow."""
    independent = {name: each for name, each in ctx.attrs.dynamic.items() if isinstance(each, Dynamic)}
    found: dict[str, DynamicDimension] = {}
    for name, each in ctx.attrs.dynamic.items():
        if not _NAME.match(name):
            raise ctx.error(("dynamic", name), f"dimension '{name}': expected a name of letters, digits and _")
        problem = ""
        if isinstance(each, Dynamic):
            problem = _bounds_problem(each)
            found[name] = {"min": each.min, "max": each.max, "example": each.example}
            if each.auto:
                found[name]["auto"] = True
        else:
            try:
                size = parse_size(each, independent)
            except ValueError as error:
                raise ctx.error(("dynamic", name), f"dimension '{name}': {error}") from None
            low, high = (
                size.plus + sum(factor * getattr(independent[other], end) for other, factor in size.terms.items())
                for end in ("min", "max")
            )
            problem = f": expected a size of 0 or more, got {low} at the least" if low < 0 else ""
            found[name] = {"min": low, "max": high, "example": None, "terms": size.terms, "plus": size.plus}
        if problem:
            raise ctx.error(("dynamic", name), f"dimension '{name}'{problem}")
    return found


def _bounds_problem(size: Dynamic) -> str:
    if size.min == size.max:
        return f" is always {size.min}; expected a number in 'shape'"
    if not size.min <= (size.min if size.example is None else size.example) <= size.max:
        return ": expected min <= example <= max"
    return ""


def _check_inputs(ctx: Context[TorchModelAttrs], dynamic: Mapping[str, DynamicDimension]) -> None:
    attrs = ctx.attrs
    _check_names(ctx, "inputs", tuple(each.name for each in attrs.inputs))
    used: set[str] = set()
    for index, each in enumerate(attrs.inputs):
        if problem := _problem(each, dynamic):
            key, message = problem
            raise ctx.error(("inputs", index, key), f"input '{each.name}': {message}")
        if each.file:
            _check_suffix(ctx, ("inputs", index, "file"), each.file, _EXAMPLES)
        for size in each.shape or ():
            if isinstance(size, str):
                used |= {size, *dynamic[size].get("terms", ())}
    for name in dynamic:
        if name not in used:
            raise ctx.error(("dynamic", name), f"no input has the dimension '{name}'")


def _problem(each: ModelInput, dynamic: Collection[str]) -> tuple[str, str] | None:
    """Return the invalid attribute of an input and the problem; None if the input is valid."""
    for size in each.shape or ():
        if isinstance(size, str) and size not in dynamic:
            return "shape", f"dimension '{size}' is not in the table 'dynamic'{did_you_mean(size, dynamic)}"
        if isinstance(size, int) and size < 0:
            return "shape", f"expected sizes of 0 or more, got {size}"
    if each.file is not None and (each.dtype or each.range):
        return "file", "a file has its own dtype and values; expected no 'dtype' and no 'range'"
    if each.file is None and (each.shape is None or each.dtype is None):
        return "name", "expected 'shape' and 'dtype', or 'file'"
    if each.range and not each.range[0] <= each.range[1]:
        return "range", "expected [lowest, highest]"
    low, high = _BOUNDS.get(each.dtype or "", (-math.inf, math.inf))
    if each.range and not (low <= each.range[0] and each.range[1] <= high):
        return "range", f"{each.dtype} ranges from {low} to {high}; expected [lowest, highest] within that"
    return None


def _call(ctx: Context[TorchModelAttrs]) -> Call | None:
    if ctx.attrs.call is None:
        return None
    try:
        return parse_call(ctx.attrs.call, [each.name for each in ctx.attrs.inputs])
    except ValueError as problem:
        raise ctx.error("call", f"attribute 'call': {problem}") from None


def _check_names(ctx: Context[TorchModelAttrs], attribute: str, names: tuple[str, ...]) -> None:
    for index, name in enumerate(names):
        if not _NAME.match(name) or name in names[:index]:
            raise _bad_name(ctx, attribute, index, name)


def _bad_name(ctx: Context[TorchModelAttrs], attribute: str, index: int, name: str) -> LoadingError:
    path: tuple[str | int, ...] = (attribute, index, "name") if attribute == "inputs" else (attribute, index)
    return ctx.error(path, f"attribute '{attribute}': expected names, each once, got '{name}'")
