"""Names, ranges and dynamic dimensions of a program's inputs and outputs: signature.json beside a .pte.

{"version": 1,
 "inputs":  [{"name", "dtype", "shape": [1, 3, "h"], "dynamic": {"h": {"min", "max"}}, "range": [low, high] | null}],
 "outputs": [{"name", "dtype", "shape"}]}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from modelbuild_runtime.errors import ProgramError
from modelbuild_runtime.json_fields import Field, read_json
from modelbuild_runtime.shapes import Dim

VERSION = 1


@dataclass(frozen=True, slots=True)
class Named:
    """A declared input or output. A dimension is a size, or a name (or an expression of names)."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    dynamic: Mapping[str, Dim]
    range: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Signature:
    inputs: tuple[Named, ...]
    outputs: tuple[Named, ...]


def read_signature(path: Path) -> Signature:
    """Read a signature. Raises ProgramError if the file is not a signature."""
    try:
        found = read_json(path)
        version = found.get("version").value
        if version != VERSION:
            raise ProgramError(f"{path}: signature of version {version!r}; this runtime supports {VERSION}")
        inputs = _all_named(found.get("inputs"))
        dynamic = {name: dim for declared in inputs for name, dim in declared.dynamic.items()}
        outputs = _all_named(found.get("outputs"))
        return Signature(inputs, tuple(Named(o.name, o.dtype, o.shape, {**dynamic, **o.dynamic}) for o in outputs))
    except OSError as error:
        raise ProgramError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise ProgramError(f"{path}: not a signature: {error}") from None


def _all_named(declared: Field) -> tuple[Named, ...]:
    found = tuple(_named(each) for each in declared.list())
    names = [each.name for each in found]
    for index, name in enumerate(names):
        if name in names[:index]:
            Field(name, f"{declared.place}[{index}].name").fail("each name once")
    return found


def _named(declared: Field) -> Named:
    dynamic = {name: _dim(name, bounds) for name, bounds in declared.get("dynamic").items()}
    shape = tuple(each.value if isinstance(each.value, str) else each.size() for each in declared.get("shape").list())
    limits = declared.get("range")
    span = None if limits.value is None else _span(limits)
    return Named(declared.get("name").text(), declared.get("dtype").text(), shape, dynamic, span)


def _dim(name: str, bounds: Field) -> Dim:
    low, high = bounds.get("min").size(), bounds.get("max").size()
    if low > high:
        bounds.fail("min <= max")
    return Dim(low, high, name)


def _span(limits: Field) -> tuple[float, float]:
    ends = limits.list()
    if len(ends) != 2:
        limits.fail("[lowest, highest]")
    return ends[0].number(), ends[1].number()
