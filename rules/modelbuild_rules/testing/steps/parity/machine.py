"""How a program for an architecture runs on this machine: directly, or in qemu's user-mode emulation."""

from __future__ import annotations

import platform
import shutil
from dataclasses import dataclass
from pathlib import Path

# Places of the C library for another architecture: Debian's foreign architecture, and its cross compiler.
_LOADERS = {"aarch64": "lib/ld-linux-aarch64.so.1", "x86_64": "lib64/ld-linux-x86-64.so.2"}
_SYSROOTS = ("/", "/usr/{arch}-linux-gnu")


@dataclass(frozen=True)
class Machine:
    """The machine that runs a program.

    unmet     the requirement that this machine does not meet, as text; '' if it runs the program
    emulator  the emulator's name; '' if none is needed
    command   the beginning of each command that runs a program
    """

    unmet: str = ""
    emulator: str = ""
    command: tuple[str, ...] = ()


def machine_for(arch: str | None) -> Machine:
    """Return the machine for programs of an architecture (None: any)."""
    here = platform.machine()
    if arch is None or arch == here:
        return Machine()
    emulator = shutil.which(f"qemu-{arch}") or shutil.which(f"qemu-{arch}-static")
    sysroot = _sysroot(arch)
    if emulator is not None and sysroot is not None:
        return Machine("", Path(emulator).name, (emulator, "-L", sysroot))
    package = f"libc6-{'arm64' if arch == 'aarch64' else 'amd64'}-cross"
    debian = f"(Debian's qemu-user and {package}) would run it"
    return Machine(f"needs a device with {arch}, and this machine is {here}; qemu-{arch} {debian}")


def _sysroot(arch: str) -> str | None:
    """Return the folder that contains an architecture's C library; None if there is none."""
    folders = (root.format(arch=arch) for root in _SYSROOTS)
    return next((folder for folder in folders if Path(folder, _LOADERS[arch]).exists()), None)
