"""The packages that contain the C++ runtime, for targets without an attribute `runtime`."""

from __future__ import annotations

import importlib.util
import json
import os
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path


@dataclass(frozen=True)
class InstalledRuntime:
    """A distribution, and the module whose folder contains the runtime's files."""

    distribution: str
    module: str

    @property
    def tools(self) -> tuple[str, ...]:
        """Return the tools of a step that uses the runtime, with the module if its distribution is a source folder."""
        try:
            url = metadata.distribution(self.distribution).read_text("direct_url.json")
        except metadata.PackageNotFoundError:
            url = None
        editable = url is not None and json.loads(url).get("dir_info", {}).get("editable")
        return (self.distribution, self.module) if editable else (self.distribution,)

    def is_there(self) -> bool:
        """Return whether the module can be imported."""
        return importlib.util.find_spec(self.module) is not None

    def has_files(self) -> bool:
        """Return whether the module's folder contains a runtime. The folder of a source installation does not."""
        return self.folder() is not None

    def folder(self) -> Path | None:
        """Return the folder with the runtime's files; None if there are none."""
        spec = importlib.util.find_spec(self.module)
        found = Path(spec.origin).parent if spec is not None and spec.origin is not None else None
        return found if found is not None and (found / "runtime.json").is_file() else None


def installed_runtime(arch: str | None) -> InstalledRuntime:
    """Return the package with the runtime for an architecture; None stands for this machine's architecture."""
    if arch in (None, os.uname().machine):
        return InstalledRuntime("modelbuild-runtime", "modelbuild_runtime_native")
    return InstalledRuntime(f"modelbuild-runtime-{arch}".replace("_", "-"), f"modelbuild_runtime_{arch}")
