"""The declared inputs of a model, and their dynamic dimensions: schemas and checks."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

from pydantic import AfterValidator, Field

from modelbuild.api import Attrs, Context, LoadingError, Source
from modelbuild.errors import did_you_mean
from modelbuild_rules.model.sizes import parse_size

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import DynamicDimension

# The values of each integer type.
_BOUNDS = {f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)} | {"uint8": (0, 255)}

DType = Literal["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]

_NAME = re.compile(r"[A-Za-z_]\w*\Z")
_METHOD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_EXAMPLES = (".npy", ".pt", ".png")


class Dynamic(Attrs):
    """A dimension whose size is known at run time."""

    min: int = Field(ge=0)
    """The smallest size."""

    max: int
    """The largest size."""

    example: int | None = None
    """The size in the example inputs; by default 2, or the nearest allowed size."""

    auto: bool = False
    """Let torch.export find a constant, or a relation to other sizes."""


class ModelInput(Attrs):
    """An input. Set either `shape` and `dtype`, or `file`."""

    name: str
    """Its name."""

    shape: tuple[int | str, ...] | None = None
    """Sizes. A name refers to `dynamic`; equal names have equal sizes."""

    dtype: DType | None = None
    """The type of its elements."""

    range: tuple[float, float] | None = None
    """Lowest and highest example value, and of a picture's 0 and 255; by default 0 and 1."""

    file: Source | None = None
    """An example: `.npy`, `.pt` (a tensor) or `.png` (uint8, rows x columns x channels)."""


def _method_name(text: str) -> str:
    if not _METHOD.fullmatch(text):
        raise ValueError(f"'{text}' is not the name of a method; expected letters, digits and underscores")
    return text


MethodName = Annotated[str, AfterValidator(_method_name)]


class Method(Attrs):
    """A method of a module. A model without `methods` has these attributes itself."""

    inputs: tuple[ModelInput, ...] = Field(min_length=1)
    """Its inputs, in order; without `call` also its arguments, by position."""

    call: str | None = None
    """The method's arguments as a Python call: names are inputs, everything else is constant."""

    dynamic: dict[str, Dynamic | str] = Field(default_factory=dict)
    """Dynamic dimensions by name. A text is a multiple or sum of others: `"8*h8"`, `"past + new"`."""

    outputs: tuple[str, ...] | None = None
    """Names of the outputs, in order."""


class Interface(Protocol):
    """The inputs and outputs of a model: attributes of a target, or of one of its methods."""

    @property
    def inputs(self) -> tuple[ModelInput, ...]: ...

    @property
    def call(self) -> str | None: ...

    @property
    def dynamic(self) -> Mapping[str, Dynamic | str]: ...

    @property
    def outputs(self) -> tuple[str, ...] | None: ...


Place = tuple[str | int, ...]


def check_suffix(ctx: Context[Any], path: Place, source: Source, allowed: tuple[str, ...]) -> None:
    """Raise LoadingError for a workspace file whose name has another ending."""
    if not source.is_label and not source.endswith(allowed):
        raise ctx.error(path, f"'{source}': expected a file ending in {', '.join(allowed)}")


def dynamic_dimensions(
    ctx: Context[Any], declared: Mapping[str, Dynamic | str], place: Place = ()
) -> dict[str, DynamicDimension]:
    """Return the dynamic dimensions declared at a place. Dimensions that depend on others get the bounds that
    follow."""
    independent = {name: each for name, each in declared.items() if isinstance(each, Dynamic)}
    found: dict[str, DynamicDimension] = {}
    for name, each in declared.items():
        if not _NAME.match(name):
            raise ctx.error((*place, "dynamic", name), f"dimension '{name}': expected a name of letters, digits and _")
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
                raise ctx.error((*place, "dynamic", name), f"dimension '{name}': {error}") from None
            low, high = (
                size.plus + sum(factor * getattr(independent[other], end) for other, factor in size.terms.items())
                for end in ("min", "max")
            )
            problem = f": expected a size of 0 or more, got {low} at the least" if low < 0 else ""
            found[name] = {"min": low, "max": high, "example": None, "terms": size.terms, "plus": size.plus}
        if problem:
            raise ctx.error((*place, "dynamic", name), f"dimension '{name}'{problem}")
    return found


def _bounds_problem(size: Dynamic) -> str:
    if size.min == size.max:
        return f" is always {size.min}; expected a number in 'shape'"
    example = size.min if size.example is None else size.example
    if not size.min <= example <= size.max:
        return f": expected min <= example <= max, got {size.min}, {example} and {size.max}"
    return ""


def check_inputs(
    ctx: Context[Any], inputs: tuple[ModelInput, ...], dynamic: Mapping[str, DynamicDimension], place: Place = ()
) -> None:
    """Raise LoadingError for an input at a place that contradicts itself or names an undeclared dimension."""
    check_names(ctx, "inputs", tuple(each.name for each in inputs), place)
    used: set[str] = set()
    for index, each in enumerate(inputs):
        if problem := _problem(each, dynamic):
            key, message = problem
            raise ctx.error((*place, "inputs", index, key), f"input '{each.name}': {message}")
        if each.file:
            check_suffix(ctx, (*place, "inputs", index, "file"), each.file, _EXAMPLES)
        for size in each.shape or ():
            if isinstance(size, str):
                used |= {size, *dynamic[size].get("terms", ())}
    for name in dynamic:
        if name not in used:
            raise ctx.error((*place, "dynamic", name), f"no input has the dimension '{name}'")


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
        return "range", f"expected [lowest, highest], got {[*each.range]}"
    low, high = _BOUNDS.get(each.dtype or "", (-math.inf, math.inf))
    if each.range and not (low <= each.range[0] and each.range[1] <= high):
        return "range", f"{each.dtype} ranges from {low} to {high}; expected [lowest, highest] within that"
    return None


def check_names(ctx: Context[Any], attribute: str, names: tuple[str, ...], place: Place = ()) -> None:
    """Raise LoadingError for a name that is not an identifier or that occurs twice."""
    for index, name in enumerate(names):
        if not _NAME.match(name) or name in names[:index]:
            raise _bad_name(ctx, attribute, (*place, attribute, index), name)


def _bad_name(ctx: Context[Any], attribute: str, place: Place, name: str) -> LoadingError:
    path: Place = (*place, "name") if attribute == "inputs" else place
    return ctx.error(path, f"attribute '{attribute}': expected names, each once, got '{name}'")
