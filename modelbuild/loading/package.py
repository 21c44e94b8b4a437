"""Packages and targets, as a BUILD.toml declares them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from modelbuild.errors import Location
from modelbuild.labels import Label
from modelbuild.loading.matrix import MATRIX, Matrix
from modelbuild.workspace.toml_document import Document
from modelbuild.workspace.toml_tokens import KeyPath

PACKAGE_FILE = "BUILD.toml"

# Tables of a BUILD.toml that declare no targets.
PACKAGE_TABLE = "package"
OTHER_TABLES = (PACKAGE_TABLE, MATRIX)

# Attributes of every rule: the engine reads them, and rules never see them.
ENGINE_ATTRIBUTES = ("name", "visibility", "tags", MATRIX, "toolchain", "action_timeout")


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """A declared target. Attributes are tomli's values: not validated, selects not resolved.

    visibility      valid entries with absolute labels; the package's default if there is no attribute
    path            position of the declaration in the document, such as ("torch_model", 0)
    toolchain       the toolchain that its actions run in: an absolute label, or INSTALLED; '' if there is no attribute
    action_timeout  seconds that its actions may run, instead of the build's limit; None if there is no attribute
    """

    label: Label
    rule: str
    attributes: Mapping[str, Any]
    visibility: tuple[str, ...]
    tags: tuple[str, ...]
    document: Document
    path: KeyPath
    action_timeout: float | None = None
    toolchain: str = ""

    @property
    def file(self) -> str:
        """The BUILD.toml, relative to the workspace."""
        return self.document.path

    def location(self, path: KeyPath = ()) -> Location:
        """Return the location of an attribute, such as ("inputs", 0, "shape"); if it is missing, of its nearest
        parent."""
        return self.document.location((*self.path, *path))


@dataclass(frozen=True, slots=True, eq=False)
class Package:
    """A folder with a BUILD.toml: its path relative to the workspace ('' at the root), its targets by name, and the
    matrices that they may name."""

    name: str
    document: Document
    targets: Mapping[str, Target]
    default_visibility: tuple[str, ...]
    matrices: Mapping[str, Matrix]

    @property
    def file(self) -> str:
        """The BUILD.toml, relative to the workspace."""
        return self.document.path
