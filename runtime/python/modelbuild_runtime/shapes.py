"""Shapes with dynamic dimensions: their text, and a check of sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dim:
    """A dimension, fixed if min == max. Dimensions with the same `name`, unless it is '', must be equal.

    terms, plus  of a dimension that depends on others: its size is `plus` and each other dimension times a factor. The
                 bounds of the others are the bounds of their own size
    """

    min: int
    max: int
    name: str = ""
    terms: tuple[tuple[Dim, int], ...] = ()
    plus: int = 0

    @classmethod
    def fixed(cls, size: int) -> Dim:
        return cls(size, size)

    @property
    def dynamic(self) -> bool:
        return self.min != self.max

    def __str__(self) -> str:
        """Return the dimension's text: `3`, `h=12..1024`, `0..100`."""
        if not self.dynamic:
            return str(self.max)
        if self.terms:
            return f"{self.name}={self.formula}={self.min}..{self.max}"
        return f"{self.name}={self.min}..{self.max}" if self.name else f"{self.min}..{self.max}"

    @property
    def formula(self) -> str:
        """Return the size as a sum of other dimensions: `8*h8 + 1`."""
        terms = [dim.name if factor == 1 else f"{factor}*{dim.name}" for dim, factor in self.terms]
        return " + ".join(terms) + (f" {'-' if self.plus < 0 else '+'} {abs(self.plus)}" if self.plus else "")

    def size(self, sizes: Mapping[str, int]) -> int:
        """Return the size for given sizes of the dimensions in `terms`."""
        return sum(factor * sizes[dim.name] for dim, factor in self.terms) + self.plus

    def follow(self, size: int, sizes: dict[str, int]) -> bool:
        """Return whether a size agrees with the sizes of other dimensions. If the size of an unknown dimension follows,
        it is added to `sizes`."""
        unknown = [(dim, factor) for dim, factor in self.terms if dim.name not in sizes]
        if len(unknown) > 1:
            return True
        if not unknown:
            return size == self.size(sizes)
        ((other, factor),) = unknown
        found, rest = divmod(size - self.size({**sizes, other.name: 0}), factor)
        sizes[other.name] = found
        return rest == 0 and other.min <= found <= other.max


def shape_text(shape: Iterable[Dim | int]) -> str:
    """Return a shape's text: `[1, 3, h=12..1024, w=12..1024]`."""
    return "[" + ", ".join(map(str, shape)) + "]"


def fits(shape: tuple[Dim, ...], sizes: tuple[int, ...]) -> bool:
    """Return whether sizes are within a shape's bounds, ignoring names."""
    return len(shape) == len(sizes) and all(d.min <= s <= d.max for d, s in zip(shape, sizes, strict=True))
