"""Typed access to the keys of one table of a TOML file; keys that were not read are unknown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from modelbuild import durations
from modelbuild.errors import LoadingError, did_you_mean
from modelbuild.lines import is_line
from modelbuild.workspace.toml_document import Document, show
from modelbuild.workspace.toml_tokens import KeyPath


class Table:
    """A table at `path` of a document. Every getter returns None for a missing key, and raises LoadingError, located,
    for a value of another type."""

    def __init__(self, document: Document, path: KeyPath, values: Mapping[str, Any]) -> None:
        self.document = document
        self.path = path
        self.values = values
        self.read: set[str] = set()

    def get(self, key: str) -> Any:
        self.read.add(key)
        return self.values.get(key)

    def boolean(self, key: str) -> bool | None:
        value = self.get(key)
        if value is None or isinstance(value, bool):
            return value
        raise self.wrong(key, "true or false")

    def count(self, key: str, most: int) -> int | None:
        value = self.get(key)
        if value is None or (isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most):
            return value
        raise self.wrong(key, f"a whole number from 1 to {most}")

    def duration(self, key: str) -> float | None:
        """Return the seconds of a duration (see modelbuild.durations)."""
        value = self.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            raise self.wrong(key, durations.EXPECTED)
        try:
            return durations.parse_duration(value)
        except ValueError as error:
            raise self.error(f"'{key}': {error}", key) from None

    def text(self, key: str, expected: str) -> str | None:
        """Return a string that may be empty."""
        value = self.get(key)
        if value is None or isinstance(value, str):
            return value
        raise self.wrong(key, expected)

    def string(self, key: str, expected: str = "a string") -> str | None:
        value = self.text(key, expected)
        if value == "":
            raise self.wrong(key, expected)
        return value

    def line(self, key: str, expected: str) -> str | None:
        """Return a string without control characters, as paths and names require."""
        value = self.string(key, expected)
        if value is None or is_line(value):
            return value
        raise self.wrong(key, f"{expected} without control characters")

    def strings(self, key: str) -> tuple[str, ...] | None:
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, list):
            raise self.wrong(key, "an array of strings")
        for index, item in enumerate(value):
            if not isinstance(item, str):
                raise self.error(f"'{key}': expected strings, got {show(item)}", key, index)
        return tuple(value)

    def table(self, key: str) -> Table | None:
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.wrong(key, "a table")
        return Table(self.document, (*self.path, key), value)

    def error(self, message: str, *path: str | int) -> LoadingError:
        """Return an error at `path` below this table."""
        return self.document.error((*self.path, *path), message)

    def wrong(self, key: str, expected: str) -> LoadingError:
        return self.error(f"'{key}': expected {expected}, got {show(self.values[key])}", key)

    @property
    def name(self) -> str:
        return f"[{'.'.join(map(str, self.path))}]"

    def finish(self, tables: Iterable[Table] = ()) -> None:
        """Raise LoadingError for the first key that no getter has read, with the one of `tables` that has this key."""
        for key in self.values:
            if key not in self.read:
                where = f" of {self.name}" if self.path else ""
                right = next((table for table in tables if key in table.read), None)
                hint = did_you_mean(key, self.read) if right is None else f"; expected it in {right.name}"
                if right and not right.path:
                    hint = "; expected it above all tables"
                raise self.error(f"unknown key {key!r}{where}{hint}", key)
