"""The target of compiled C++, and the libraries that it is linked with."""

from __future__ import annotations

from modelbuild_rules.backend_api.prerequisite import Prerequisite

GLIBC = "2.28"
"""The glibc that a library may need if the device states none: the glibc of executorch's own wheels."""


def target_of(arch: str, os: str = "linux", min_glibc: str | None = None) -> str:
    """Return zig's name of a target, as "x86_64-linux-gnu.2.28"."""
    return f"{arch}-{os}-gnu.{min_glibc or GLIBC}"


def cpp_runtime(target: str) -> Prerequisite:
    """Return the folder of libraries that C++ for a target is linked with."""
    return Prerequisite("modelbuild_rules.backend_api.steps.cpp_runtime", "runtime", {"target": target}, ("ziglang",))
