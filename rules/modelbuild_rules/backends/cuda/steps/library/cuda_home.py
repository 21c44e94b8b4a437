"""Find the folders of packages with headers and tools."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from modelbuild.step import StepError


def cuda_home() -> Path:
    """Return the folder of the CUDA packages' tools and headers."""
    return package_home("nvidia") / "cu13"


def package_home(package: str) -> Path:
    """Return the folder of an installed package. Raises StepError if it is missing."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise StepError(f"the package '{package}' is not installed; install modelbuild[cuda]")
    return Path(next(iter(found.submodule_search_locations)))
