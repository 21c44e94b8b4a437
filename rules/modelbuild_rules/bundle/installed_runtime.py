"""The packages that contain the C++ runtime, for targets without an attribute `runtime`."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class InstalledRuntime:
    """A distribution, and the module whose folder contains the runtime's files."""

    distribution: str
    module: str

    def is_there(self) -> bool:
        """Return whether the module can be imported."""
        return importlib.util.find_spec(self.module) is not None

    def has_files(self) -> bool:
        """Return whether the module's folder contains a runtime; that of a source installation does not."""
        spec = importlib.util.find_spec(self.module)
        return spec is not None and spec.origin is not None and Path(spec.origin).with_name("runtime.json").is_file()


def installed_runtime(arch: str | None) -> InstalledRuntime:
    """Return the package with the runtime for an architecture; None: for this machine's."""
    if arch in (None, os.uname().machine):
        return InstalledRuntime("modelbuild-runtime", "modelbuild_runtime_native")
    return InstalledRuntime(f"modelbuild-runtime-{arch}".replace("_", "-"), f"modelbuild_runtime_{arch}")
