"""The architectures that the runtime is built for, and the compilers: Zig's, and the machine's for archives."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

ARCHITECTURES = ("x86_64", "aarch64")

GLIBC = "2.28"
"""The glibc that the SDK's libraries are made for (manylinux_2_28)."""

FLAGS = "-Os -fno-sanitize=undefined"
"""For CMake's probes, so that they link the same C++ library as everything else; targets have their own -O."""


class BuildError(Exception):
    """Raised with one line about a missing tool or a failed command."""


@dataclass(frozen=True)
class Toolchain:
    """GCC and binutils for an architecture. `prefix` begins the names of a cross compiler's programs."""

    arch: str
    prefix: str = ""

    @property
    def compiler(self) -> str:
        """The C++ compiler: CXX, for the machine's own architecture."""
        return f"{self.prefix}g++" if self.prefix else os.environ.get("CXX", "c++")

    def tool(self, name: str) -> str:
        """Return the name of a program of binutils."""
        return f"{self.prefix}{name}"

    def file(self, name: str) -> Path | None:
        """Return the path of one of the compiler's libraries or object files; None if it has none of that name."""
        found = subprocess.run(
            [self.compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        return Path(found).resolve() if os.path.isabs(found) else None


def zig_options(zig: Path, arch: str) -> dict[str, str]:
    """Return the options that make CMake compile for an architecture with Zig's C++ compiler."""
    target = f"-target;{arch}-linux-gnu.{GLIBC}"
    cross = {"CMAKE_SYSTEM_NAME": "Linux"} if arch != platform.machine() else {}
    return {
        **cross,
        "CMAKE_SYSTEM_PROCESSOR": arch,
        "CMAKE_C_COMPILER": f"{zig};cc;{target}",
        "CMAKE_CXX_COMPILER": f"{zig};c++;{target}",
        "CMAKE_C_FLAGS": FLAGS,
        "CMAKE_CXX_FLAGS": FLAGS,
    }


def toolchain(arch: str) -> Toolchain:
    """Return the toolchain of an architecture. Raises BuildError if the machine has no compiler for it."""
    if arch == platform.machine():
        found, package = Toolchain(arch), "g++"
    else:
        found, package = Toolchain(arch, f"{arch}-linux-gnu-"), f"g++-{arch.replace('_', '-')}-linux-gnu"
    if shutil.which(found.compiler) is None:
        whose = f" for {arch}" if found.prefix else ""
        raise BuildError(f"no C++ compiler{whose} ({found.compiler}); on Debian and Ubuntu: apt-get install {package}")
    return found
