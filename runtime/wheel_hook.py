"""Build hook of hatchling: adds the C++ runtime to a wheel.

wheels.py puts its files into the folder `native`. Without that folder, the runtime is built in a checkout; the wheel of
a source archive has only the Python packages. An editable installation gets the runtime by `make venv`.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# The glibc that the files need: docs/reference/runtime.md.
PLATFORM = "manylinux_2_35"

PURE = "MODELBUILD_RUNTIME_PURE"
"""Environment variable: if it is not empty, the wheel has only the Python packages."""


class RuntimeHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        native, tag = Path(self.root, "native"), PLATFORM
        if version == "editable" or os.environ.get(PURE):
            return
        if not native.is_dir():
            if not Path(self.root, "CMakeLists.txt").is_file():
                return
            native, tag = Path(self.root).parent / "build/native", "linux"
            sys.path.insert(0, self.root)
            install: Any = import_module("install")
            native.parent.mkdir(exist_ok=True)
            install.install(native)
        arch = json.loads((native / "runtime.json").read_text())["arch"]
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{tag}_{arch}"
        build_data["force_include"][str(native)] = "modelbuild_runtime_native"
