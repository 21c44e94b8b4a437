"""torch_model: a PyTorch module with weights and declared inputs, exported."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, cast

from pydantic import Field

from modelbuild.api import (
    Artifact,
    Attrs,
    Context,
    Files,
    LoadingError,
    Output,
    Provider,
    Resources,
    Source,
    SourceArtifact,
    Sources,
    rule,
)
from modelbuild.errors import did_you_mean
from modelbuild_rules.distributions import Distribution
from modelbuild_rules.providers import EagerModel, ExportedModel

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import DeclaredInput, DynamicDimension, ModelParams

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

    entry: str
    """`file.py:name` of a class or function that returns the module when called with `kwargs`."""

    srcs: Sources
    """The module's Python files. They import each other by workspace path, or by name within one folder."""

    kwargs: dict[str, bool | int | float | str | list[bool | int | float | str]] = Field(default_factory=dict)
    """Arguments of the entry."""

    weights: Source | dict[str, Source] | None = None
    """A state dict: `.safetensors`, or `.pt` (read with weights_only); or a table of such files by submodule."""

    allow_missing: bool = False
    """Let parameters that are in no weights file keep their initial values, which depend on `seed`."""

    data: Sources = ()
    """Other files that the code reads, at their workspace paths."""

    inputs: tuple[ModelInput, ...] = Field(min_length=1)
    """The arguments of `forward`, in order."""

    dynamic: dict[str, Dynamic] = Field(default_factory=dict)
    """Dimensions of variable size, by name."""

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
    entry = _entry(ctx, srcs)
    weights = _weights(ctx)
    _check_inputs(ctx)
    _check_names(ctx, "outputs", attrs.outputs or ())
    inputs: dict[str, tuple[Artifact, ...]] = {
        "srcs": srcs,
        "data": ctx.files(attrs.data),
        **{f"weights.{prefix}": (artifact,) for prefix, artifact in weights.items()},
    }
    params: ModelParams = {
        "entry": entry,
        "kwargs": attrs.kwargs,
        "weights": sorted(weights),
        "allow_missing": attrs.allow_missing,
        "inputs": [cast("DeclaredInput", each.model_dump(mode="json", exclude={"file"})) for each in attrs.inputs],
        "dynamic": {name: cast("DynamicDimension", each.model_dump()) for name, each in attrs.dynamic.items()},
        "outputs": attrs.outputs and list(attrs.outputs),
        "seed": attrs.seed,
    }
    tools = ("executorch", "numpy", "pillow", "safetensors", "sympy", "torch", *attrs.requires)
    made = ctx.action(
        "export",
        step="export",
        inputs=inputs | {f"example.{i}": (ctx.file(each.file),) for i, each in enumerate(attrs.inputs) if each.file},
        outputs=[
            Output("program", "program", "tree"),
            Output("weights", "weights", "tree"),
            Output("signature", "signature.json"),
            Output("examples", "examples.safetensors"),
            Output("debug", "debug.json"),
        ],
        params=params,
        tools=tools,
        python=("srcs",),
        preload=("torch", "executorch.exir"),
        resources=Resources(memory=2 << 30),
        description=f"export {attrs.entry}",
    )
    model = ExportedModel(**made, inputs=tuple(each.name for each in attrs.inputs))
    return model, EagerModel(inputs, params, tools), Files((model.signature, model.debug))


def _entry(ctx: Context[TorchModelAttrs], srcs: tuple[Artifact, ...]) -> str:
    """Return the entry as `path/in/workspace.py:name`."""
    match = _ENTRY.match(ctx.attrs.entry)
    if match is None:
        raise ctx.error("entry", f"attribute 'entry': expected 'file.py:name', got '{ctx.attrs.entry}'")
    path = f"{ctx.label.package}/{match['file']}".lstrip("/")
    if SourceArtifact(path) not in srcs:
        own = [a.path.removeprefix(f"{ctx.label.package}/") for a in srcs if isinstance(a, SourceArtifact)]
        hint = did_you_mean(match["file"], own)
        raise ctx.error("entry", f"attribute 'entry': '{match['file']}' is not among the srcs{hint}")
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


def _check_inputs(ctx: Context[TorchModelAttrs]) -> None:
    attrs = ctx.attrs
    _check_names(ctx, "inputs", tuple(each.name for each in attrs.inputs))
    for name, size in attrs.dynamic.items():
        if not _NAME.match(name):
            raise ctx.error(("dynamic", name), f"dimension '{name}': expected a name of letters, digits and _")
        if size.min == size.max:
            raise ctx.error(("dynamic", name), f"dimension '{name}' is always {size.min}; expected a number in 'shape'")
        if not size.min <= (size.min if size.example is None else size.example) <= size.max:
            raise ctx.error(("dynamic", name), f"dimension '{name}': expected min <= example <= max")
    used = set()
    for index, each in enumerate(attrs.inputs):
        if problem := _problem(each, attrs.dynamic):
            key, message = problem
            raise ctx.error(("inputs", index, key), f"input '{each.name}': {message}")
        if each.file:
            _check_suffix(ctx, ("inputs", index, "file"), each.file, _EXAMPLES)
        used |= {size for size in each.shape or () if isinstance(size, str)}
    for name in attrs.dynamic:
        if name not in used:
            raise ctx.error(("dynamic", name), f"no input has the dimension '{name}'")


def _problem(each: ModelInput, dynamic: Mapping[str, Dynamic]) -> tuple[str, str] | None:
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


def _check_names(ctx: Context[TorchModelAttrs], attribute: str, names: tuple[str, ...]) -> None:
    for index, name in enumerate(names):
        if not _NAME.match(name) or name in names[:index]:
            raise _bad_name(ctx, attribute, index, name)


def _bad_name(ctx: Context[TorchModelAttrs], attribute: str, index: int, name: str) -> LoadingError:
    path: tuple[str | int, ...] = (attribute, index, "name") if attribute == "inputs" else (attribute, index)
    return ctx.error(path, f"attribute '{attribute}': expected names, each once, got '{name}'")
