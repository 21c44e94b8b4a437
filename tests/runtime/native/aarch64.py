"""The runtime for aarch64: cross-compiled, and run by qemu."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

SYSROOT = Path("/usr/aarch64-linux-gnu")
EMULATOR = ("qemu-aarch64", "-L", str(SYSROOT))


@dataclass(frozen=True)
class Runtime:
    """An archive, and a folder with its files and those of the build that tests use."""

    archive: Path
    folder: Path

    def __call__(self, program: str | Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a program of the folder with an empty environment."""
        command = [*EMULATOR, str(self.folder / program), *map(str, arguments)]
        plain = {"PATH": os.environ["PATH"]}
        return subprocess.run(command, env=plain, capture_output=True, text=True, check=False)


def make(builder: Any, repository: Path, folder: Path) -> Runtime:
    """Build and unpack the runtime. Skips the test on a machine without the compiler or the emulator."""
    for program, package in (("aarch64-linux-gnu-g++", "g++-aarch64-linux-gnu"), ("qemu-aarch64", "qemu-user")):
        if shutil.which(program) is None:
            pytest.skip(f"not run: needs {program} (Debian's package {package}), which .ci/run installs")
    build = builder.build(repository / "build/runtime-aarch64", tests=True, targets=["emulated"], arch="aarch64")
    archive = folder / "runtime-aarch64.tar"
    pack = [sys.executable, repository / "runtime/archive.py", "--arch=aarch64", "--build", build, "--out", archive]
    subprocess.run(pack, check=True, stdout=subprocess.DEVNULL)
    with tarfile.open(archive) as packed:
        packed.extractall(folder / "unpacked")
    unpacked = folder / "unpacked"
    for name in ("modelbuild-example", "contract_check"):
        shutil.copy(build / "bin" / name, unpacked / "bin")
    shutil.copytree(build / "fakes", unpacked / "fakes", ignore=shutil.ignore_patterns("CMakeFiles", "*.cmake"))
    return Runtime(archive, unpacked)
