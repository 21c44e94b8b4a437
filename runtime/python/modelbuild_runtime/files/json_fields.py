"""Read untrusted JSON with typed accessors. A value of another type raises ValueError with its place in the file."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

_MOST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Field:
    """A value, and its place in the file such as `inputs[0].shape`. Every method raises ValueError for another type."""

    value: Any
    place: str = ""

    def fail(self, expected: str) -> NoReturn:
        try:
            got = json.dumps(self.value)
        except (ValueError, RecursionError):
            got = type(self.value).__name__
        shown = got if len(got) <= 60 else f"{got[:57]}..."
        raise ValueError(f"{self.place + ': ' if self.place else ''}expected {expected}, got {shown}")

    def get(self, name: str) -> Field:
        """Return a member of an object; null if it is missing."""
        return Field(self._table().get(name), f"{self.place}.{name}" if self.place else name)

    def items(self) -> Iterator[tuple[str, Field]]:
        """Yield the members of an object; null has none."""
        for name in self._table() if self.value is not None else ():
            yield name, self.get(name)

    def list(self) -> list[Field]:
        if not isinstance(self.value, list):
            self.fail("a list")
        return [Field(item, f"{self.place}[{index}]") for index, item in enumerate(self.value)]

    def text(self) -> str:
        if not isinstance(self.value, str):
            self.fail("a text")
        return self.value

    def size(self) -> int:
        """Return a non-negative integer."""
        if type(self.value) is not int or not 0 <= self.value <= _MOST:
            self.fail("a whole number of 0 or more")
        return self.value

    def integer(self) -> int:
        if type(self.value) is not int or not -_MOST <= self.value <= _MOST:
            self.fail("a whole number")
        return self.value

    def number(self) -> float:
        """Return a finite number."""
        try:
            found = float(self.value) if type(self.value) in (int, float) else math.nan
        except OverflowError:
            found = math.inf
        if not math.isfinite(found):
            self.fail("a finite number")
        return found

    def _table(self) -> Mapping[str, Any]:
        if not isinstance(self.value, dict):
            self.fail("an object")
        return self.value


def read_json(path: Path) -> Field:
    """Read a JSON file. Raises OSError, and ValueError for invalid JSON."""
    try:
        return Field(json.loads(path.read_bytes()))
    except RecursionError:
        raise ValueError("nested too deep") from None
