"""Labels (`//package:name`) as Bazel writes them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from modelbuild.errors import UsageError

_PACKAGE = re.compile(r"(?:[A-Za-z0-9_.+@-]+(?:/[A-Za-z0-9_.+@-]+)*)?\Z")
_NAME = re.compile(r"[A-Za-z0-9_.+@=-]+\Z")


@dataclass(frozen=True, slots=True, order=True)
class Label:
    """A target's name: the package (a folder relative to the workspace, '' at the root) and the name in it."""

    package: str
    name: str

    def __str__(self) -> str:
        return f"//{self.package}:{self.name}"

    @classmethod
    def parse(cls, text: str, package: str = "") -> Label:
        """A label as written in `package`: `//pkg:name`, `//pkg` (its last folder's name), `:name` or `name`.

        Raises UsageError, without a location, when the text is none of these.
        """
        if text.startswith("//"):
            where, colon, name = text[2:].partition(":")
            if not colon:
                name = where.rpartition("/")[2]
        else:
            where, name = package, text.removeprefix(":")
        parts = where.split("/")
        if not _PACKAGE.match(where) or not _NAME.match(name) or "." in parts or ".." in parts:
            raise UsageError(f"'{text}' is not a label; expected //package:name, //package or :name")
        return cls(where, name)
