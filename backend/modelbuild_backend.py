"""setuptools, but for editable installs (PEP 660): those get plain paths in a .pth file, and short programs.

What setuptools puts there for a project of several source folders is a finder that imports pathlib each time Python
starts, and the programs that pip writes for entry points import re: half as much again as Python's own start.
"""

from __future__ import annotations

import base64
import hashlib
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_sdist,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

ROOT = Path(__file__).resolve().parent.parent

_REPLACED = ("entry_points.txt", "RECORD")


def build_editable(
    wheel_directory: str, config_settings: Mapping[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """The wheel that setuptools makes, with the source folders themselves in place of its finder."""
    name: str = build_meta.build_editable(wheel_directory, config_settings, metadata_directory)
    wheel = Path(wheel_directory, name)
    with zipfile.ZipFile(wheel) as archive:
        files = {file: archive.read(file) for file in archive.namelist() if ".dist-info/" in file}
    with zipfile.ZipFile(wheel, "w") as archive:
        for file, data in _with_paths(files).items():
            entry = zipfile.ZipInfo(file)
            entry.external_attr = (0o100755 if "/scripts/" in file else 0o100644) << 16
            archive.writestr(entry, data)
    return name


def _with_paths(metadata: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of the wheel, given those of its metadata."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = settings["project"]
    folder = next(file for file in metadata if file.endswith(".dist-info/RECORD")).partition("/")[0]
    # pip writes programs for entry points over any of the same names.
    files = {file: data for file, data in metadata.items() if file.rpartition("/")[2] not in _REPLACED}
    sources = settings["tool"]["setuptools"]["packages"]["find"]["where"]
    files[f"{project['name']}.pth"] = "".join(f"{ROOT / source}\n" for source in sources).encode()
    for program, entry in project["scripts"].items():
        module, _, function = entry.partition(":")
        text = f"#!python\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n"
        files[f"{folder.removesuffix('.dist-info')}.data/scripts/{program}"] = text.encode()
    rows = [f"{file},sha256={_digest(data)},{len(data)}\n" for file, data in files.items()]
    return {**files, f"{folder}/RECORD": "".join([*rows, f"{folder}/RECORD,,\n"]).encode()}


def _digest(data: bytes) -> str:
    """As RECORD files have it."""
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
