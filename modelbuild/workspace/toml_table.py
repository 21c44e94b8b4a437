"""Take the keys of one table of a TOML file, checking each; what is left over is unknown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modelbuild.errors import LoadingError, did_you_mean
from modelbuild.lines import is_line
from modelbuild.workspace.toml_document import Document, show
from modelbuild.workspace.toml_positions import KeyPath


class Table:
    """A table at `path` of a document. Every getter returns None when the key is not there, and raises LoadingError,
    located, when its value is of another kind."""

    def __init__(self, document: Document, path: KeyPath, values: Mapping[str, Any]) -> None:
        self.document = document
        self.path = path
        self.values = values
        self.known: set[str] = set()

    def get(self, key: str) -> Any:
        self.known.add(key)
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

    def string(self, key: str, expected: str = "a string") -> str | None:
        value = self.get(key)
        if value is None or (isinstance(value, str) and value):
            return value
        raise self.wrong(key, expected)

    def line(self, key: str, expected: str) -> str | None:
        """A string that the system can take for a path or a name: no NUL, no other control character."""
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
        """An error at `path` below this table."""
        return self.document.error((*self.path, *path), message)

    def wrong(self, key: str, expected: str) -> LoadingError:
        return self.error(f"'{key}': expected {expected}, got {show(self.values[key])}", key)

    def finish(self) -> None:
        """Raise LoadingError for the first key that nobody asked for."""
        for key in self.values:
            if key not in self.known:
                where = f" of [{'.'.join(map(str, self.path))}]" if self.path else ""
                raise self.error(f"unknown key {key!r}{where}{did_you_mean(key, self.known)}", key)
