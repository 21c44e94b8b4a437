"""Put libraries of other vendors next to the runtime's, after checking that the program's partitions can load them."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from modelbuild.step import Step, StepError
from modelbuild_rules.backend_api.steps.elf import machine, needs
from modelbuild_rules.bundle.steps.runtime.archive import LaidOut

if TYPE_CHECKING:
    from modelbuild_rules.backend_api.documents import NeededLibrary
    from modelbuild_rules.bundle.documents import BundledLibrary, NeededByBundle
    from modelbuild_rules.program.documents import CompiledPartition

_SYSTEM = ("libc.so.", "libm.so.", "libdl.so.", "libpthread.so.", "librt.so.", "libmvec.so.", "ld-linux-")
"""Prefixes of the names of libraries that every Linux with glibc has."""


def needed_libraries(parts: Sequence[CompiledPartition]) -> list[NeededLibrary]:
    """Return the libraries that compiled partitions need in addition to the runtime, without duplicates."""
    found: list[NeededLibrary] = []
    for part in parts:
        library = part.get("about", {}).get("requires")
        if library is not None and library not in found:
            found.append(library)
    return found


def lay_out_libraries(
    step: Step, laid_out: LaidOut, needed: Sequence[NeededLibrary], folder: Path, only_needed: bool = False
) -> tuple[Mapping[str, BundledLibrary], str]:
    """Copy the step's libraries (inputs `library.0`, ..., param `libraries`) into a bundle, with their licences. Return
    their facts by path, and the oldest glibc that they load on, as "2.17". `only_needed` skips libraries that no
    partition needs.

    Raises StepError, with the library's place in the BUILD file, if no partition needs the library, its version is too
    old, it is for another architecture, or it needs a library that the bundle lacks.
    """
    facts: dict[str, BundledLibrary] = {}
    glibc: tuple[int, ...] = (2, 0)
    for index, declared in enumerate(step.params["libraries"]):
        name = step.input(f"library.{index}").name
        if only_needed and not any(name in each["libraries"] for each in needed):
            continue
        try:
            found = _lay_out(step.input(f"library.{index}"), declared, laid_out, needed, folder)
        except StepError as error:
            raise StepError(f"{step.params['library_places'][index]}: {error}") from error
        glibc = max(glibc, found)
        text = f"licenses/{name}.txt" if f"license.{index}" in step.inputs else None
        if text is not None:
            (folder / text).parent.mkdir(exist_ok=True)
            shutil.copyfile(step.input(f"license.{index}"), folder / text)
        facts[f"lib/{name}"] = {
            "version": declared["version"],
            "license": declared["license"],
            "license_file": text,
        }
    return facts, ".".join(map(str, glibc))


def with_places(needed: Sequence[NeededLibrary], bundled: Mapping[str, BundledLibrary]) -> list[NeededByBundle]:
    """Return the needed libraries, with the paths of libraries that are in the bundle."""
    return [
        {**each, "bundled": next((f"lib/{name}" for name in each["libraries"] if f"lib/{name}" in bundled), None)}
        for each in needed
    ]


def missing_text(needed: Sequence[NeededByBundle]) -> str | None:
    """Return the libraries that are not in the bundle, as one line; None if there are none."""
    missing = [
        f"{each['product']} {each['version']} ({' or '.join(each['libraries'])})"
        for each in needed
        if not each["bundled"]
    ]
    if not missing:
        return None
    return f"the device must have {' and '.join(missing)} in LD_LIBRARY_PATH or in the system's folders"


def _lay_out(
    source: Path, declared: Mapping[str, str], laid_out: LaidOut, needed: Sequence[NeededLibrary], folder: Path
) -> tuple[int, ...]:
    """Copy one library. Return the oldest glibc that it loads on."""
    name = source.name
    found = machine(source)
    if found is None:
        raise StepError(f"{name} is not a library; expected a library for {laid_out.arch}")
    if found != laid_out.arch:
        raise StepError(f"{name} is for {found}; expected {laid_out.arch}, the bundle's architecture")
    _check_needed(name, declared["version"], needed)
    target = folder / "lib" / name
    if target.exists():
        raise StepError(f"{name} is part of the runtime; expected a library of another vendor")
    try:
        own = needs(source)
    except (ValueError, struct.error, IndexError) as error:
        raise StepError(f"{name} is damaged: {error}") from None
    there = {path.name for place in ("lib", "lib/gcc") for path in (folder / place).glob("*")}
    lacking = [each for each in sorted(own.libraries) if not each.startswith(_SYSTEM) and each not in there]
    if lacking:
        raise StepError(f"{name} needs {', '.join(lacking)}, which neither the bundle nor glibc has")
    shutil.copyfile(source, target)
    target.chmod(0o755)
    return own.glibc


def _check_needed(name: str, declared: str, needed: Sequence[NeededLibrary]) -> None:
    version = _numbers(declared)
    wanted = [each for each in needed if name in each["libraries"]]
    if not wanted:
        libraries = [f"{' or '.join(each['libraries'])} ({each['product']} {each['version']})" for each in needed]
        expected = f"expected {', '.join(libraries)}" if libraries else "it needs no library besides the runtime"
        raise StepError(f"no partition of the program needs {name}; {expected}")
    for each in wanted:
        least = _numbers(each["version"])
        if version[: len(least)] == least or (not each["exact"] and version[0] == least[0] and version > least):
            continue
        newer = "" if each["exact"] else f" or a newer {least[0]}.x"
        raise StepError(f"{name} is version {declared}; expected {each['product']} {each['version']}{newer}")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
