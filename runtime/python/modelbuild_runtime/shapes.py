"""Shapes with dynamic dimensions: what they are called, and whether an array fits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dim:
    """One dimension: fixed when min == max. `name` ties dimensions that must be equal; '' is tied to none."""

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
        """`3`, `h=12..1024`, `0..100`."""
        if not self.dynamic:
            return str(self.max)
        return f"{self.name}={self.min}..{self.max}" if self.name else f"{self.min}..{self.max}"


def shape_text(shape: Iterable[Dim | int]) -> str:
    """`[1, 3, h=12..1024, w=12..1024]`."""
    return "[" + ", ".join(map(str, shape)) + "]"


def fits(shape: tuple[Dim, ...], sizes: tuple[int, ...]) -> bool:
    """Whether sizes lie within a shape. Names are not looked at."""
    return len(shape) == len(sizes) and all(d.min <= s <= d.max for d, s in zip(shape, sizes, strict=True))
