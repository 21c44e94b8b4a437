"""Wheels that tests make, and locks of them: an index for uv without a network."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.workspace_builder import Workspace

# A wheel for any Python on any platform.
ANY = "py3-none-any"


def wheel(
    folder: Path,
    name: str,
    version: str,
    files: Mapping[str, str],
    requires: Sequence[str] = (),
    tag: str = ANY,
    license: str = "",
) -> str:
    """Write a wheel of text files into a folder. Returns its SHA-256 (hex)."""
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n"
    metadata += f"License-Expression: {license}\n" if license else ""
    contents = {
        **files,
        f"{info}/METADATA": metadata + "".join(f"Requires-Dist: {each}\n" for each in requires),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    record = "".join(f"{path},{_hash(text)},{len(text.encode())}\n" for path, text in contents.items())
    path = folder / f"{name}-{version}-{tag}.whl"
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in {**contents, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(zipfile.ZipInfo(file), text)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _hash(text: str) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


@dataclass
class Index:
    """A folder of wheels, in which uv alone looks for packages, with a cache of uv's own.

    pins  the lines of a lock, by name
    """

    folder: Path
    pins: dict[str, str] = field(default_factory=dict)

    def add(
        self,
        name: str,
        version: str,
        files: Mapping[str, str],
        requires: Sequence[str] = (),
        tag: str = ANY,
        license: str = "",
    ) -> None:
        """Add a wheel, and pin it."""
        digest = wheel(self.folder / "wheels", name, version, files, requires, tag, license)
        self.pins[name] = f"{name}=={version} --hash=sha256:{digest}\n"

    @property
    def lock(self) -> str:
        return "".join(self.pins.values())

    @property
    def environment(self) -> dict[str, str]:
        (self.folder / "nothing").mkdir(parents=True, exist_ok=True)
        return {
            "UV_FIND_LINKS": str(self.folder / "wheels"),
            "UV_DEFAULT_INDEX": f"file://{self.folder}/nothing",  # uv has no variable for --no-index
            "UV_CACHE_DIR": str(self.folder / "uv"),
            "UV_NO_CONFIG": "1",
        }


TOOLCHAIN = """
[[python_toolchain]]
name = "tools"
lock = "tools.lock"
"""


class ToolchainWorkspace(Workspace):
    """A workspace whose commands use an index of wheels."""

    index: Index

    def environment(self, **more: str) -> dict[str, str]:
        return super().environment(**{**self.index.environment, **more})
