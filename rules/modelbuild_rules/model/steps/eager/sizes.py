"""Sizes of dynamic dimensions in example inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from modelbuild.step import StepError

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import DeclaredInput, DynamicDimension


def example_sizes(
    declared: Sequence[DeclaredInput],
    dynamic: Mapping[str, DynamicDimension],
    shapes: Mapping[int, Sequence[int]],
) -> dict[str, int]:
    """Return the example size of each dimension: as declared, else from the files (`shapes` by the input's number),
    else 2 or the nearest allowed size. Raises StepError for files whose sizes are not allowed or contradict each
    other."""
    sizes = {name: int(bounds["example"]) for name, bounds in dynamic.items() if bounds["example"] is not None}
    found = [
        (f"input '{declared[index]['name']}': '{dimension}'", dimension, size)
        for index, shape in shapes.items()
        for dimension, size in zip(declared[index]["shape"] or (), shape, strict=False)
        if isinstance(dimension, str)
    ]
    for place, dimension, size in found:
        low, high = dynamic[dimension]["min"], dynamic[dimension]["max"]
        if not low <= size <= high:
            raise StepError(f"{place} is {size} in its file; expected {low} to {high}")
        name, value = _independent(dimension, size, dynamic)
        if name and sizes.setdefault(name, value) != value:
            raise StepError(f"{place} is {size} in its file, {size_of(dimension, dynamic, sizes)} elsewhere")
    # Avoid 0 and 1: torch.export treats these sizes as constants.
    drawn = {name: min(max(2, bounds["min"]), bounds["max"]) for name, bounds in dynamic.items()} | sizes
    made = {name: size_of(name, dynamic, drawn) for name in dynamic}
    for place, dimension, size in found:
        if made[dimension] != size:
            raise StepError(f"{place} is {size} in its file; expected {size_text(dynamic[dimension])}")
    return made


def size_of(name: str, dynamic: Mapping[str, DynamicDimension], sizes: Mapping[str, int]) -> int:
    """Return the size of a dimension for given sizes of the independent dimensions."""
    terms = dynamic[name].get("terms")
    if not terms:
        return sizes[name]
    return sum(factor * sizes[other] for other, factor in terms.items()) + dynamic[name].get("plus", 0)


def size_text(dimension: DynamicDimension) -> str:
    """Return the text of a dependent size: `8*h8 + 1`."""
    terms = [name if factor == 1 else f"{factor}*{name}" for name, factor in dimension.get("terms", {}).items()]
    plus = dimension.get("plus", 0)
    return " + ".join(terms) + (f" {'-' if plus < 0 else '+'} {abs(plus)}" if plus else "")


def _independent(name: str, size: int, dynamic: Mapping[str, DynamicDimension]) -> tuple[str, int]:
    """Return the independent dimension and its size that follow from a dimension's size; '' if none follows."""
    terms = dynamic[name].get("terms")
    if not terms:
        return name, size
    if len(terms) > 1:
        return "", 0
    ((other, factor),) = terms.items()
    rest = size - dynamic[name].get("plus", 0)
    return ("", 0) if rest % factor else (other, rest // factor)
