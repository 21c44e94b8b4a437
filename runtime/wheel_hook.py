"""Build hook of hatchling: adds the C++ runtime to a wheel.

wheels.py puts its files into the folder `native`. Without that folder the wheel has only the Python packages.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# The glibc that the files need: docs/reference/runtime.md.
PLATFORM = "manylinux_2_35"


class RuntimeHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        native = Path(self.root, "native")
        if version == "editable" or not native.is_dir():
            return
        arch = json.loads((native / "runtime.json").read_text())["arch"]
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{PLATFORM}_{arch}"
        build_data["force_include"][str(native)] = "modelbuild_runtime_native"
