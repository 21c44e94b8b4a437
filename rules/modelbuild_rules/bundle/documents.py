"""The JSON documents of a bundle and of the C++ runtime's archive, as types.

For type checkers only: import it under `if TYPE_CHECKING`, which leaves it out of every step's key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict

from modelbuild_rules.backend_api.documents import NeededLibrary


class RuntimeBackend(TypedDict):
    """A backend of the runtime."""

    files: Sequence[str]
    """The libraries from which the runner loads it."""

    flavours: NotRequired[Sequence[str]]
    """For a backend that needs one of several libraries: the libraries that the archive has."""

    no_flavour: NotRequired[str]
    """The message if `flavours` is empty."""


class RuntimeKernelLibrary(TypedDict):
    """A library of kernels outside ExecuTorch's own."""

    files: Sequence[str]
    """The files from which the runner loads it."""

    operators: Sequence[str]
    """As "torchvision::nms.out"."""


class RuntimeFile(TypedDict):
    """A file of the runtime."""

    needs: Sequence[str]
    """Paths of the files that it loads."""

    glibc: NotRequired[str]
    """The oldest glibc that it loads on, as "2.34"; 2.0 if absent."""


class RuntimeDocument(TypedDict):
    """runtime.json of the archive that runtime/archive.py writes. Paths are relative to the archive's root."""

    version: int

    arch: NotRequired[str]
    """The architecture that its files are for, as "x86_64"."""

    versions: NotRequired[Mapping[str, str]]
    """Versions of its parts, by name."""

    driver: NotRequired[str]
    """The oldest driver of NVIDIA GPUs that its CUDA runtime works with, as "580"."""

    cudart: str
    """Path of the CUDA runtime."""

    backends: Mapping[str, RuntimeBackend]
    """By the backends' names in programs."""

    kernel_libraries: NotRequired[Mapping[str, RuntimeKernelLibrary]]
    """By name; absent in archives of older versions."""

    kernels: str
    """Path of the library of portable kernels."""

    quantized_kernels: str
    """Path of the library of kernels of quantized operators."""

    files: Mapping[str, RuntimeFile]
    """By path."""


class BundledFile(TypedDict):
    """A file of a bundle."""

    bytes: int
    """Its size."""

    sha256: str
    """In hexadecimal."""


class NeededByBundle(NeededLibrary):
    """A library that compiled partitions of a bundle's program need in addition to the runtime."""

    bundled: str | None
    """Path of the file in the bundle; None if the device must have it."""


class BundledLibrary(TypedDict):
    """A library in a bundle that is not part of the runtime."""

    version: str
    """As declared."""

    license: str
    """As declared."""

    license_file: str | None
    """Path of the licence's text in the bundle."""


class MachineNeeds(TypedDict):
    """The bundle's requirements of its machine."""

    machine: str | None
    """The architecture, as "x86_64"; None for any."""

    glibc: str
    """The oldest glibc, as "2.34"."""

    nvidia_driver: str | None
    """The oldest driver of NVIDIA GPUs, as "580"; None for a program that needs no driver."""

    compute_capabilities: Sequence[str] | None
    """The GPU must have one of these; None for a program that needs no GPU or states no capabilities."""

    libraries: Sequence[NeededByBundle]
    """Libraries that compiled partitions need in addition to the runtime."""

    missing: str | None
    """The libraries that the device must have in addition to the bundle, in one line; None if there are none."""


class BundledProgram(TypedDict):
    """A program in a bundle. Paths are relative to the bundle."""

    file: str
    """Path of the .pte."""

    data: str | None
    """Path of the .ptd, which several programs may share; None without weights outside the program."""

    backends: Sequence[str]
    """Names of the backends that it calls, sorted."""


class BundleManifest(TypedDict):
    """manifest.json of a bundle."""

    version: int
    backends: Sequence[str]
    """Names of the backends that its programs call, sorted."""

    programs: Mapping[str, BundledProgram]
    """By the programs' names in the bundle."""

    needs: MachineNeeds
    versions: Mapping[str, str]
    """Versions of the runtime's parts, by name."""

    libraries: Mapping[str, BundledLibrary]
    """Libraries that are not part of the runtime, by path."""

    files: Mapping[str, BundledFile]
    """By path, relative to the bundle."""
