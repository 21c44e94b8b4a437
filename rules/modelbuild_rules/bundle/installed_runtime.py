"""The packages that contain the C++ runtime, for targets without an attribute `runtime`."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from modelbuild.api import DeviceRuntime, Finding, Probe


@dataclass(frozen=True)
class InstalledRuntime:
    """A distribution, and the module whose folder contains the runtime's files."""

    distribution: str
    module: str

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools of a step that uses the runtime: the module too, if its distribution is a source folder."""
        try:
            url = metadata.distribution(self.distribution).read_text("direct_url.json")
        except metadata.PackageNotFoundError:
            url = None
        editable = url is not None and json.loads(url).get("dir_info", {}).get("editable")
        return (self.distribution, self.module) if editable else (self.distribution,)

    def is_there(self) -> bool:
        """Return whether the module can be imported."""
        return importlib.util.find_spec(self.module) is not None

    def has_files(self) -> bool:
        """Return whether the module's folder contains a runtime; that of a source installation does not."""
        return self.folder() is not None

    def folder(self) -> Path | None:
        """Return the folder with the runtime's files; None if there are none."""
        spec = importlib.util.find_spec(self.module)
        found = Path(spec.origin).parent if spec is not None and spec.origin is not None else None
        return found if found is not None and (found / "runtime.json").is_file() else None


def installed_runtime(arch: str | None) -> InstalledRuntime:
    """Return the package with the runtime for an architecture; None: for this machine's."""
    if arch in (None, os.uname().machine):
        return InstalledRuntime("modelbuild-runtime", "modelbuild_runtime_native")
    return InstalledRuntime(f"modelbuild-runtime-{arch}".replace("_", "-"), f"modelbuild_runtime_{arch}")


_PROGRAM = "bin/modelbuild-run"


def _find(arch: str) -> Path:
    installed = installed_runtime(arch)
    folder = installed.folder()
    if folder is None:
        raise LookupError(f"no {installed.distribution} with a C++ runtime is installed here; expected its wheel")
    return folder


def _files(folder: Path) -> list[str]:
    libraries = (path for path in sorted((folder / "lib").rglob("*")) if path.is_file() and ".so" in path.name)
    return [_PROGRAM, *(path.relative_to(folder).as_posix() for path in libraries)]


_NAME = "c++ runtime"


def _check() -> Finding:
    """Start the installed modelbuild-run, which loads its libraries. It runs each program that is built."""
    installed = installed_runtime(None)
    fix = f"pip install --force-reinstall {installed.distribution}; in a checkout, make venv"
    if not installed.is_there():
        return Finding(
            _NAME, "ok", "not installed beside modelbuild; all backends need it", "pip install 'modelbuild[models]'"
        )
    folder = installed.folder()
    if folder is None:
        return Finding(_NAME, "error", f"{installed.distribution} is installed without its compiled files", fix)
    try:
        done = subprocess.run([folder / _PROGRAM, "--help"], capture_output=True, text=True, timeout=60, check=False)
    except OSError as error:
        return Finding(_NAME, "error", f"does not start: {error.strerror}", fix)
    if done.returncode:
        reason = next(iter(done.stderr.strip().splitlines()[-1:]), f"exit status {done.returncode}")
        return Finding(_NAME, "error", f"does not start: {reason}", fix)
    return Finding(_NAME, "ok", f"starts ({folder})")


INSTALLED = Probe(_NAME, _check)
DEVICE_RUNTIME = DeviceRuntime(_NAME, _find, _files, _PROGRAM)
