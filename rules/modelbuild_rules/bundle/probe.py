"""Check the installed C++ runtime for `modelbuild doctor`, on this machine and on a device."""

from __future__ import annotations

import subprocess
from pathlib import Path

from modelbuild.api import DeviceRuntime, Finding, Probe
from modelbuild_rules.installed_runtime import installed_runtime

_NAME = "c++ runtime"
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


def _check() -> Finding:
    """Start the installed modelbuild-run, which loads its libraries. modelbuild-run runs each built program."""
    installed = installed_runtime(None)
    fix = f"pip install --force-reinstall {installed.distribution}; in a checkout, make venv"
    if not installed.is_there():
        return Finding(
            _NAME, "ok", "not installed with modelbuild; all backends need it", "pip install 'modelbuild[models]'"
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
