"""The facts in a manifest: names of inputs and outputs, the device, versions, parts and kernel libraries. Format:
docs/reference/program-files.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from modelbuild_runtime.errors import ProgramError
from modelbuild_runtime.files.json_fields import Field
from modelbuild_runtime.files.signature import Signatures, parse_signatures


@dataclass(frozen=True, slots=True)
class Target:
    """The device that a program was compiled for. compute_capabilities: of its GPU, such as "8.7"; () without a GPU."""

    arch: str
    os: str
    compute_capabilities: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"arch": self.arch, "os": self.os, "compute_capabilities": list(self.compute_capabilities)}

    def __str__(self) -> str:
        gpu = f" with a GPU of compute capability {' or '.join(self.compute_capabilities)}"
        return f"{self.os} on {self.arch}" + (gpu if self.compute_capabilities else "")


@dataclass(frozen=True, slots=True)
class NeededLibrary:
    """A library that a part needs and that is not part of the runtime: any of the files `libraries`.

    product  "TensorRT-RTX"
    version  the version that the part was compiled with
    """

    product: str
    version: str
    libraries: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {"product": self.product, "version": self.version, "libraries": list(self.libraries)}

    def __str__(self) -> str:
        return f"{self.product} {self.version}: {' or '.join(self.libraries)}"


@dataclass(frozen=True, slots=True)
class Part:
    """A compiled partition: its id in the partition step, the size and SHA-256 (hex) of the delegate's blob, and the
    library that it needs in addition to the runtime; None if it needs no library."""

    id: str
    backend: str
    bytes: int
    sha256: str
    library: NeededLibrary | None = None

    def to_json(self) -> dict[str, Any]:
        needed = {} if self.library is None else {"requires": self.library.to_json()}
        return {"id": self.id, "backend": self.backend, "bytes": self.bytes, "sha256": self.sha256, **needed}


@dataclass(frozen=True, slots=True)
class KernelLibrary:
    """A library of kernels outside ExecuTorch's own, and the program's operators that need it."""

    name: str
    operators: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {"library": self.name, "operators": list(self.operators)}

    def __str__(self) -> str:
        return f"the kernel library {self.name} for {', '.join(self.operators)}"


@dataclass(frozen=True, slots=True)
class Contents:
    """The facts in a program's manifest; all empty for a program without a manifest.

    versions      of the packages that lowered the program, by name
    shared_state  true if its methods share their state
    """

    signature: Signatures | None = None
    device: Target | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    parts: tuple[Part, ...] = ()
    kernels: tuple[KernelLibrary, ...] = ()
    shared_state: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "device": None if self.device is None else self.device.to_json(),
            "versions": dict(self.versions),
            "parts": [part.to_json() for part in self.parts],
            "kernels": [library.to_json() for library in self.kernels],
        }

    def lines(self) -> list[str]:
        device = [] if self.device is None else [f"for {self.device}"]
        versions = ", ".join(f"{name} {version}" for name, version in sorted(self.versions.items()))
        needed = dict.fromkeys(f"needs {part.library}" for part in self.parts if part.library is not None)
        needed |= dict.fromkeys(f"needs {library}" for library in self.kernels)
        return [*device, *([f"made with {versions}"] if versions else []), *needed]


def contents(manifest: Mapping[str, Any] | None, path: Path) -> Contents:
    """Return a manifest's facts. Raises ProgramError, with the program's path, for a member of another type."""
    found = Field({} if manifest is None else manifest)
    try:
        signature = found.get("signature")
        return Contents(
            None if signature.value is None else parse_signatures(signature, path),
            _device(found.get("device")),
            {name: version.text() for name, version in found.get("versions").items()},
            tuple(map(_part, _entries(found.get("parts")))),
            tuple(map(_kernel_library, _entries(found.get("kernels")))),
            _flag(found.get("shared_state")),
        )
    except ValueError as error:
        raise ProgramError(f"{path}: is damaged: its manifest cannot be read: {error}") from None


def _entries(declared: Field) -> list[Field]:
    return [] if declared.value is None else list(declared.list())


def _flag(declared: Field) -> bool:
    if declared.value is not None and not isinstance(declared.value, bool):
        raise ValueError("expected true or false")
    return declared.value is True


def _kernel_library(declared: Field) -> KernelLibrary:
    return KernelLibrary(
        declared.get("library").text(), tuple(each.text() for each in declared.get("operators").list())
    )


def _device(declared: Field) -> Target | None:
    if declared.value is None:
        return None
    capabilities = tuple(each.text() for each in declared.get("compute_capabilities").list())
    return Target(declared.get("arch").text(), declared.get("os").text(), capabilities)


def _part(declared: Field) -> Part:
    return Part(
        declared.get("id").text(),
        declared.get("backend").text(),
        declared.get("bytes").size(),
        declared.get("sha256").text(),
        _library(declared.get("requires")),
    )


def _library(declared: Field) -> NeededLibrary | None:
    if declared.value is None:
        return None
    libraries = tuple(each.text() for each in declared.get("libraries").list())
    return NeededLibrary(declared.get("product").text(), declared.get("version").text(), libraries)


NONE = Contents()
