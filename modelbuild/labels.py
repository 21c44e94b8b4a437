"""Labels (`//package:name`) in Bazel's syntax."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from modelbuild.errors import UsageError, did_you_mean
from modelbuild.lines import shown
from modelbuild.paths import MAX_NAME

_PACKAGE = re.compile(r"(?:[A-Za-z0-9_.+@-]+(?:/[A-Za-z0-9_.+@-]+)*)?\Z")
_NAME = re.compile(r"[A-Za-z0-9_.+@=-]+\Z")
_DOTS = (".", "..", "...")

# Targets in the built-in rule package: `@modelbuild//toolchains:xnnpack`.
REPOSITORY = "@modelbuild"


@dataclass(frozen=True, slots=True, order=True)
class Label:
    """A target's name: the package (a folder relative to the workspace, '' at the root) and the name in it.
    `repository` is REPOSITORY for a toolchain of the built-in rule package."""

    package: str
    name: str
    repository: str = ""

    def __str__(self) -> str:
        return f"{self.repository}//{self.package}:{self.name}"

    @classmethod
    def parse(cls, text: str, package: str = "") -> Label:
        """Parse a label written in `package`: `//pkg:name`, `//pkg` (its last folder's name), `:name` or `name`.

        Raises UsageError, without a location, for any other text.
        """
        if text.startswith("//"):
            where, colon, name = text[2:].partition(":")
            if not colon:
                name = where.rpartition("/")[2]
        else:
            where, name = package, text.removeprefix(":")
        if not is_package_name(where) or not is_target_name(name):
            raise UsageError(f"{shown(text)} is not a label; expected //package:name, //package or :name")
        return cls(where, name)

    @classmethod
    def parse_toolchain(cls, text: str, package: str = "") -> Label:
        """Parse the label of a toolchain, also `@modelbuild//toolchains:name` of the built-in rule package. Raises
        UsageError."""
        repository, slashes, rest = text.partition("//")
        if not (slashes and text.startswith("@")):
            return cls.parse(text, package)
        if repository != REPOSITORY:
            expected = f"expected //package:name, or {REPOSITORY}//toolchains:name"
            raise UsageError(f"{shown(text)} is not a label; {expected}{did_you_mean(repository, [REPOSITORY])}")
        return replace(cls.parse(f"//{rest}"), repository=repository)


def is_package_name(text: str) -> bool:
    """Return whether a folder with this path, relative to the workspace, can be a package."""
    return bool(_PACKAGE.match(text)) and not any(dots in text.split("/") for dots in _DOTS)


def is_target_name(text: str) -> bool:
    """Return whether a target can have this name: letters, digits and `_.+@=-`, not only dots, and at most 255
    characters, because it is also the name of the outputs' folder."""
    return bool(_NAME.match(text)) and text not in _DOTS and len(text) <= MAX_NAME
