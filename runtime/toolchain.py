"""The architectures that the runtime is built for, and the machine's compilers for them."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

ARCHITECTURES = ("x86_64", "aarch64")


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

    def cmake_options(self) -> dict[str, str]:
        """Return the options that make CMake cross-compile; none for the machine's own architecture."""
        if not self.prefix:
            return {}
        return {
            "CMAKE_SYSTEM_NAME": "Linux",
            "CMAKE_SYSTEM_PROCESSOR": self.arch,
            "CMAKE_C_COMPILER": f"{self.prefix}gcc",
            "CMAKE_CXX_COMPILER": self.compiler,
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
