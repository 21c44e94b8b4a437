"""Build the C++ runtime, and put it beside the module modelbuild_runtime_native of this checkout.

So `pip install --editable runtime` has the runtime, as the wheels do. With GCC and binutils, it has its own libstdc++,
which bundles for other machines need; without them, it uses the machine's.
"""

from __future__ import annotations

import platform
import shutil
import sys
import tempfile
from pathlib import Path

from archive import lay_out
from build import HERE, build, default_out
from toolchain import BuildError, toolchain

MODULE = HERE / "python/modelbuild_runtime_native"
PARTS = ("bin", "lib", "include", "share", "runtime.json")


def install(target: Path) -> None:
    """Write the runtime's files into a folder, in place of those of an earlier installation."""
    arch = platform.machine()
    made = build(default_out(arch))
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        folder = Path(work) / "runtime"
        folder.mkdir()
        lay_out(made, folder, arch, own_libstdcxx=_has_gcc(arch))
        for name in ("include", "share"):
            shutil.copytree(made / name, folder / name)
        target.mkdir(exist_ok=True)
        for name in PARTS:
            old = target / name
            if old.is_dir():
                shutil.rmtree(old)
            (folder / name).replace(old)


def _has_gcc(arch: str) -> bool:
    try:
        tools = toolchain(arch)
    except BuildError:
        return False
    return shutil.which(tools.tool("strip")) is not None


if __name__ == "__main__":
    try:
        install(MODULE)
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
