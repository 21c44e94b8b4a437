"""The declared inputs of a model, and their dynamic dimensions: schemas and checks."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from modelbuild.api import Attrs, Context, LoadingError, Source
from modelbuild.errors import did_you_mean
from modelbuild_rules.model.sizes import parse_size

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import DynamicDimension

# The values of each integer type.
_BOUNDS = {f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)} | {"uint8": (0, 255)}

DType = Literal["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]

_NAME = re.compile(r"[A-Za-z_]\w*\Z")
_EXAMPLES = (".npy", ".pt", ".png")


class Dynamic(Attrs):
    """A dimension whose size is known only when the program runs."""

    min: int = Field(ge=0)
    """The smallest size."""

    max: int
    """The largest size."""

    example: int | None = None
    """The size in the example inputs; by default 2, or the nearest allowed size."""

    auto: bool = False
    """Let torch.export find how the size depends on others, or that it is constant."""


class ModelInput(Attrs):
    """An input, in the order of the module's `forward`. Set either `shape` and `dtype`, or `file`."""

    name: str
    """The input's name, for `modelbuild run --input`."""

    shape: tuple[int | str, ...] | None = None
    """Sizes. A name refers to a dimension of the table `dynamic`; equal names have equal sizes."""

    dtype: DType | None = None
    """The type of its elements."""

    range: tuple[float, float] | None = None
    """Lowest and highest example value, to which 0 and 255 of a picture are mapped. By default 0 and 1."""

    file: Source | None = None
    """An example: `.npy`, `.pt` (a tensor), or `.png` (uint8, rows x columns x channels)."""


def check_suffix(ctx: Context[Any], path: tuple[str | int, ...], source: Source, allowed: tuple[str, ...]) -> None:
    """Raise LoadingError for a file of the workspace whose name has another ending."""
    if not source.is_label and not source.endswith(allowed):
        raise ctx.error(path, f"'{source}': expected a file ending in {', '.join(allowed)}")


def dynamic_dimensions(ctx: Context[Any]) -> dict[str, DynamicDimension]:
    """Return the dynamic dimensions, those that depend on others with the bounds that follow."""
    declared: Mapping[str, Dynamic | str] = ctx.attrs.dynamic
    independent = {name: each for name, each in declared.items() if isinstance(each, Dynamic)}
    found: dict[str, DynamicDimension] = {}
    for name, each in declared.items():
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


def check_inputs(ctx: Context[Any], dynamic: Mapping[str, DynamicDimension]) -> None:
    """Raise LoadingError for an input that contradicts itself, and for a dimension of none."""
    inputs: tuple[ModelInput, ...] = ctx.attrs.inputs
    check_names(ctx, "inputs", tuple(each.name for each in inputs))
    used: set[str] = set()
    for index, each in enumerate(inputs):
        if problem := _problem(each, dynamic):
            key, message = problem
            raise ctx.error(("inputs", index, key), f"input '{each.name}': {message}")
        if each.file:
            check_suffix(ctx, ("inputs", index, "file"), each.file, _EXAMPLES)
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


def check_names(ctx: Context[Any], attribute: str, names: tuple[str, ...]) -> None:
    """Raise LoadingError for a name that is no identifier, or that occurs twice."""
    for index, name in enumerate(names):
        if not _NAME.match(name) or name in names[:index]:
            raise _bad_name(ctx, attribute, index, name)


def _bad_name(ctx: Context[Any], attribute: str, index: int, name: str) -> LoadingError:
    path: tuple[str | int, ...] = (attribute, index, "name") if attribute == "inputs" else (attribute, index)
    return ctx.error(path, f"attribute '{attribute}': expected names, each once, got '{name}'")
