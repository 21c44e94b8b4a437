"""Names, ranges and dynamic dimensions of a program's inputs and outputs: in its manifest, or a signature.json next to
it.

{"version": 2,
 "methods": {"forward": {
   "inputs":  [{"name", "dtype", "shape": [1, 3, "h"], "dynamic": {"h": {"min", "max"}}, "range": [low, high] | null}],
   "outputs": [{"name", "dtype", "shape"}]}}}

A dimension that is a sum of other dimensions also has {"terms": {"h8": 8}, "plus": 0}: here it is 8*h8.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from modelbuild_runtime.errors import ProgramError
from modelbuild_runtime.files.json_fields import Field, read_json
from modelbuild_runtime.shapes import Dim

VERSION = 2


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
    """The inputs and outputs of a method."""

    inputs: tuple[Named, ...] = ()
    outputs: tuple[Named, ...] = ()


Signatures: TypeAlias = Mapping[str, Signature]


def signatures_beside(pte: Path) -> Signatures:
    """Return the signatures in a file next to a program: <name>.signature.json, or signature.json. Without a file,
    return none."""
    candidates = (pte.with_name(f"{pte.stem}.signature.json"), pte.with_name("signature.json"))
    return next((read_signatures(found) for found in candidates if found.is_file()), {})


def read_signatures(path: Path) -> Signatures:
    """Read the signatures of methods, by name. Raises ProgramError if the file has none."""
    try:
        return parse_signatures(read_json(path), path)
    except OSError as error:
        raise ProgramError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise ProgramError(f"{path}: not a signature: {error}") from None


def parse_signatures(found: Field, file: Path) -> Signatures:
    """Return the signatures in a JSON object of a file. Raises ProgramError for a version of the format that this
    module does not support, and ValueError for a member of another type."""
    version = found.get("version").value
    if version != VERSION:
        raise ProgramError(f"{file}: signature of version {version!r}; this runtime supports {VERSION}")
    return {name: _ports(ports) for name, ports in found.get("methods").items()}


def _ports(found: Field) -> Signature:
    inputs = _all_named(found.get("inputs"))
    dynamic = {name: dim for declared in inputs for name, dim in declared.dynamic.items()}
    outputs = _all_named(found.get("outputs"))
    return Signature(inputs, tuple(Named(o.name, o.dtype, o.shape, {**dynamic, **o.dynamic}) for o in outputs))


def _all_named(declared: Field) -> tuple[Named, ...]:
    found = tuple(_named(each) for each in declared.list())
    names = [each.name for each in found]
    for index, name in enumerate(names):
        if name in names[:index]:
            Field(name, f"{declared.place}[{index}].name").fail("each name once")
    return found


def _named(declared: Field) -> Named:
    bounds = dict(declared.get("dynamic").items())
    dynamic = {name: _dim(name, bounds) for name in bounds}
    shape = tuple(each.value if isinstance(each.value, str) else each.size() for each in declared.get("shape").list())
    limits = declared.get("range")
    span = None if limits.value is None else _span(limits)
    return Named(declared.get("name").text(), declared.get("dtype").text(), shape, dynamic, span)


def _dim(name: str, table: Mapping[str, Field]) -> Dim:
    bounds = table[name]
    low, high = bounds.get("min").size(), bounds.get("max").size()
    if low > high:
        bounds.fail("min <= max")
    terms = []
    for other, factor in bounds.get("terms").items():
        if other not in table or table[other].get("terms").value is not None or factor.size() < 1:
            factor.fail("a factor of 1 or more of an independent dimension")
        terms.append((_dim(other, table), factor.size()))
    plus = bounds.get("plus")
    return Dim(low, high, name, tuple(terms), plus.integer() if terms else 0)


def _span(limits: Field) -> tuple[float, float]:
    ends = limits.list()
    if len(ends) != 2:
        limits.fail("[lowest, highest]")
    return ends[0].number(), ends[1].number()
