"""Shipped files need at most the glibc in docs/reference/runtime.md, and have their libraries beside them."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from modelbuild_rules.backend_api.steps.elf import needs
from tests.runtime.native.aarch64 import Runtime


def needed(archive: Path, folder: Path) -> dict[str, tuple[int, ...]]:
    """The glibc that each file of an archive needs."""
    with tarfile.open(archive) as packed:
        packed.extractall(folder)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".json"]
    assert {path.name for path in files} >= {"modelbuild-run", "libstdc++.so.6", "libgcc_s.so.1", "libcudart.so.13"}
    return {path.name: needs(path).glibc for path in files}


def limit(repository: Path) -> tuple[int, ...]:
    (found,) = re.findall(r"need at most glibc\s+(\d+\.\d+)", (repository / "docs/reference/runtime.md").read_text())
    return tuple(map(int, found.split(".")))


def test_files_for_this_machine_need_no_newer_glibc_than_documented(
    repository: Path, native: Path, tmp_path: Path
) -> None:
    if tuple(map(int, platform.libc_ver()[1].split("."))) > (2, 36):
        pytest.skip("not run: holds where glibc is at most 2.36, Debian 12's")
    pack = [sys.executable, repository / "runtime/archive.py", "--build", native, "--out", tmp_path / "runtime.tar"]
    subprocess.run(pack, check=True, stdout=subprocess.DEVNULL)
    found = needed(tmp_path / "runtime.tar", tmp_path / "unpacked")
    assert {name: glibc for name, glibc in found.items() if glibc > limit(repository)} == {}


def absolute_paths(files: Iterable[Path]) -> dict[str, list[str]]:
    """Return the folders by absolute path, by file, in which the loader looks for a file's libraries."""
    found = {}
    for file in files:
        command = ["readelf", "--dynamic", "--wide", file]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        folders = [folder for paths in re.findall(r"path: \[(.*)\]", text) for folder in paths.split(":")]
        if absolute := [folder for folder in folders if not folder.startswith("$ORIGIN")]:
            found[file.name] = absolute
    return found


def test_files_for_this_machine_name_no_folder_of_the_build(native: Path) -> None:
    libraries = list((native / "lib").glob("libmodelbuild_*.so"))
    assert len(libraries) > 5
    assert absolute_paths([*libraries, native / "bin/modelbuild-run"]) == {}


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.xdist_group("aarch64")
def test_files_for_aarch64_name_no_folder_of_the_build(aarch64: Runtime) -> None:
    libraries = list((aarch64.folder / "lib").glob("libmodelbuild_*.so"))
    assert len(libraries) > 5
    assert absolute_paths([*libraries, aarch64.folder / "bin/modelbuild-run"]) == {}


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.xdist_group("aarch64")
def test_files_for_aarch64_need_no_newer_glibc_than_documented(
    repository: Path, aarch64: Runtime, tmp_path: Path
) -> None:
    found = needed(aarch64.archive, tmp_path)
    assert {name: glibc for name, glibc in found.items() if glibc > limit(repository)} == {}


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.xdist_group("aarch64")
def test_files_for_aarch64_load_beside_the_libstdcxx_of_jetpack(aarch64: Runtime) -> None:
    """That is GCC 12's. A process may have loaded it before the runtime's own, which then is not used."""
    newest = {"GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13)}
    files = [path for path in (aarch64.folder / "lib").glob("*.so*") if path.is_file()]
    found: set[tuple[str, tuple[int, ...]]] = set()
    for path in files:
        command = ["readelf", "--version-info", "--wide", path]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        for name, version in re.findall(r"Name: (GLIBCXX|CXXABI)_([\d.]+)", text):
            found.add((name, tuple(map(int, version.split(".")))))
    assert len(found) > 10
    assert [each for each in found if each[1] > newest[each[0]]] == []
