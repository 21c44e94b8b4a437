"""Import packages whose source is in keys: by name from their folders, using only the bytes of the source.

Imports no other module of modelbuild, because the process that forks workers imports modelbuild with it.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from types import ModuleType
from typing import Any

# PEP 552: byte code that Python checks against a hash of the source.
_CHECKED_HASH = (0b11).to_bytes(4, "little")


class SourceLoader(SourceFileLoader):
    """Loads a module of a package whose source is in keys. `digest` is the SHA-256 (hex) of its source. Byte code that
    is valid for a time and size is ignored, because another source may have the same time and size."""

    digest = ""

    def get_data(self, path: str) -> bytes:
        data = super().get_data(path)
        if path == self.path:
            self.digest = hashlib.sha256(data).hexdigest()
        elif path.endswith(".pyc") and data[4:8] != _CHECKED_HASH:
            raise OSError(errno.EINVAL, "byte code that is not checked by a hash", path)
        return data

    def set_data(self, path: str, data: Any, *, _mode: int = 0o666) -> None:
        """Do nothing: the engine writes byte code, with a hash of the source."""


class PackageFinder:
    """Finds packages (import name -> folder) and the modules in them. Their parent folders, including this package's,
    are not on sys.path."""

    def __init__(self, folders: dict[str, str]) -> None:
        self.folders = folders

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        top, _, below = name.partition(".")
        folder = self.folders.get(top)
        if folder is None:
            return None
        base = f"{folder}/{below.replace('.', '/')}" if below else folder
        for file, places in ((f"{base}/__init__.py", [base]), (f"{base}.py", None)):
            if (places or below) and os.path.isfile(file):
                loader = SourceLoader(name, file)
                return spec_from_file_location(name, file, loader=loader, submodule_search_locations=places)
        if below:
            return None
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [folder]
        return spec
