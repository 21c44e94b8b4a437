"""Import Python files of the workspace."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

from modelbuild.step import StepError


def import_source(root: Path, path: str) -> ModuleType:
    """Import a file by its path in the workspace. Raises StepError if an installed package has its name; exceptions of
    the file are not caught."""
    sys.dont_write_bytecode = True
    # Imports by workspace path come first, then plain names of files in the same folder.
    sys.path.insert(0, str(root))
    top = path.partition("/")[0]
    if (root / top).is_dir() and not (root / top / "__init__.py").exists():
        # Import the folder now: Python prefers a module of the same name to a folder without __init__.py.
        folder = importlib.import_module(top)
        if str(root / top) not in getattr(folder, "__path__", ()):
            raise StepError(f"'{path}' cannot be imported: an installed package is also called '{top}'")
    sys.path.insert(1, str((root / path).parent))
    source = importlib.import_module(path.removesuffix(".py").replace("/", "."))
    if Path(str(source.__file__)) != root / path:
        raise StepError(f"'{path}' cannot be imported: an installed package is also called '{path.partition('/')[0]}'")
    return source
