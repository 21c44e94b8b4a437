"""TOML files of the workspace, with the location of every key and element."""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import tomli

from modelbuild.errors import LoadingError, Location
from modelbuild.lines import shown
from modelbuild.workspace.toml_tokens import KeyPath, positions

# Computes the location of a reference. A function, because locations are only needed for errors.
Where: TypeAlias = Callable[[], Location]

# Bounds of a document: TOML's range of integers, and fewer levels than recursive functions can handle.
_INTEGERS = range(-(2**63), 2**63)
_LEVELS = 100


class Stamp(NamedTuple):
    """Equal stamps mean that a file has not changed since it was read. The ctime moves with every call that writes or
    changes the mode, and no program can set it back."""

    size: int
    ctime_ns: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> Stamp:
        return cls(status.st_size, status.st_ctime_ns, status.st_ino)


class Document:
    """The text of a TOML file, and its path relative to the workspace."""

    __slots__ = ("_places", "path", "text")

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self._places: dict[KeyPath, tuple[int, int]] | None = None

    def location(self, path: KeyPath = ()) -> Location:
        """Return the location of a key or array element; if it is missing, of its nearest parent."""
        if self._places is None:
            self._places = positions(self.text)
        while path not in self._places:
            path = path[:-1]
        return Location(self.path, *self._places[path])

    def error(self, path: KeyPath, message: str) -> LoadingError:
        return LoadingError(message, self.location(path))


def read_document(root: Path, path: str) -> tuple[Document, dict[str, Any], Stamp]:
    """Read and parse `path` below `root`. Raises LoadingError when it can't be read or is not TOML."""
    try:
        with open(f"{root}/{path}", "rb") as file:
            stamp = Stamp.of(os.fstat(file.fileno()))
            data = file.read().removeprefix(codecs.BOM_UTF8)
    except OSError as error:
        raise LoadingError(f"can't be read: {error.strerror}", Location(path, 1, 1)) from None
    return *parse_document(path, data), stamp


def parse_document(path: str, data: bytes) -> tuple[Document, dict[str, Any]]:
    """Parse the bytes of a file, which may not be saved yet. Raises LoadingError if they are not TOML."""
    document, values = _parse(path, data)
    if not _is_bounded(values):
        raise document.error(*_out_of_bounds(values))
    return document, values


def _parse(path: str, data: bytes) -> tuple[Document, dict[str, Any]]:
    try:
        text = data.decode().replace("\r\n", "\n")
        return Document(path, text), tomli.loads(text)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = len(data[data.rfind(b"\n", 0, error.start) + 1 : error.start].decode()) + 1
        message = f"not UTF-8: byte 0x{data[error.start]:02x}; save the file as UTF-8"
        raise LoadingError(message, Location(path, line, column)) from None
    except tomli.TOMLDecodeError as error:
        raise LoadingError(f"not valid TOML: {error.msg}", Location(path, error.lineno, error.colno)) from None
    except RecursionError:
        raise LoadingError("not valid TOML: nested too deep", Location(path, 1, 1)) from None
    except ValueError:  # Python's own limit, see sys.set_int_max_str_digits
        raise LoadingError("not valid TOML: a number has too many digits", Location(path, 1, 1)) from None


def _is_bounded(values: Mapping[str, Any]) -> bool:
    """Return whether a document's integers and levels are within bounds. Level by level, for speed."""
    level: list[Any] = [values]
    for _ in range(_LEVELS):
        below: list[Any] = []
        for around in level:
            for value in around.values() if type(around) is dict else around:
                kind = type(value)
                if kind is dict or kind is list:
                    below.append(value)
                elif kind is int and value not in _INTEGERS:
                    return False
        if not below:
            return True
        level = below
    return False


def _out_of_bounds(values: Mapping[str, Any]) -> tuple[KeyPath, str]:
    """Return the path of the first value out of bounds, and a description of the problem."""
    waiting: list[tuple[KeyPath, Any]] = [((), values)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, (dict, list)):
            if len(path) == _LEVELS:
                return path, f"nested too deep; expected at most {_LEVELS} levels"
            items = list(value.items() if isinstance(value, dict) else enumerate(value))
            waiting += [((*path, key), item) for key, item in reversed(items)]
        elif type(value) is int and value not in _INTEGERS:
            return path, f"a number of {value.bit_length()} bits; expected a whole number of at most 64 bits"
    raise AssertionError("within bounds")


def show(value: object) -> str:
    """Return a TOML value as an error quotes it: on one line, and short."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a table" if value else "an empty table"
    if isinstance(value, list):
        return "an array" if value else "an empty array"
    return shown(value) if isinstance(value, str) else str(value)
