"""Shapes with dynamic dimensions: their text, and a check of sizes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dim:
    """A dimension, fixed if min == max. Dimensions with the same `name`, unless it is '', must be equal."""

    min: int
    max: int
    name: str = ""

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
        return f"{self.name}={self.min}..{self.max}" if self.name else f"{self.min}..{self.max}"


def shape_text(shape: Iterable[Dim | int]) -> str:
    """Return a shape's text: `[1, 3, h=12..1024, w=12..1024]`."""
    return "[" + ", ".join(map(str, shape)) + "]"


def fits(shape: tuple[Dim, ...], sizes: tuple[int, ...]) -> bool:
    """Return whether sizes are within a shape's bounds, ignoring names."""
    return len(shape) == len(sizes) and all(d.min <= s <= d.max for d, s in zip(shape, sizes, strict=True))
