"""Find the Python that an environment is made with, and query facts about a Python."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelbuild.errors import EnvironmentProblem
from modelbuild.toolchain.uv import UvFailed, run_uv

VERSION = re.compile(r"3\.\d{1,2}(\.\d{1,3})?\Z")

# The oldest Python that modelbuild's steps run in.
OLDEST = (3, 11)

_SECONDS = 60

_ASK = """
import importlib.machinery, json, os, platform, sys, sysconfig
version = platform.python_version()
print(json.dumps({
    "version": version,
    "program": os.path.realpath(sys._base_executable),
    "base_prefix": sys.base_prefix,
    "path": [entry for entry in sys.path if entry],
    "suffixes": importlib.machinery.EXTENSION_SUFFIXES,
    "stdlib": sorted(getattr(sys, "stdlib_module_names", ())),
    "platform": sysconfig.get_platform(),
    "markers": {
        "implementation_name": sys.implementation.name,
        "implementation_version": version,
        "os_name": os.name,
        "python_full_version": version,
        "platform_python_implementation": platform.python_implementation(),
        "python_version": ".".join(platform.python_version_tuple()[:2]),
        "sys_platform": sys.platform,
    },
}))
"""


@dataclass(frozen=True, slots=True)
class BasePython:
    """An installed Python: the real path of its program, its version, and its platform, such as linux-x86_64."""

    program: str
    version: str
    platform: str


def find_python(wanted: str, needed_by: str) -> BasePython:
    """Return the Python for a toolchain. Raises EnvironmentProblem if this machine has no such Python, or if it is too
    old.

    wanted     a version, such as 3.12 or 3.12.1, or the absolute path of a program; '': the Python of this process
    needed_by  the label of the toolchain
    """
    if not wanted or f"{platform.python_version()}.".startswith(f"{wanted}."):
        own = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
        return BasePython(own, platform.python_version(), sysconfig.get_platform())
    facts = ask(wanted if wanted.startswith("/") else _by_version(wanted, needed_by), needed_by)
    version = str(facts["version"])
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise EnvironmentProblem(f"{needed_by}: Python {version} is too old for steps; expected {oldest} or later")
    return BasePython(str(facts["program"]), version, str(facts["platform"]))


def _by_version(wanted: str, needed_by: str) -> str:
    try:
        return run_uv(
            ["python", "find", "--no-python-downloads", "--no-project", "--system", wanted], Path("/")
        ).strip()
    except UvFailed:
        advice = f"expected one on PATH, or of `uv python install {wanted}`"
        raise EnvironmentProblem(f"{needed_by}: no Python {wanted} on this machine; {advice}") from None


def ask(program: str, needed_by: str) -> dict[str, Any]:
    """Return facts about a Python. Raises EnvironmentProblem for a program that is not Python."""
    try:
        done = subprocess.run(
            [program, "-I", "-c", _ASK], cwd="/", capture_output=True, timeout=_SECONDS, check=True, env=_environment()
        )
        facts: dict[str, Any] = json.loads(done.stdout)
        return facts
    except OSError as error:
        raise EnvironmentProblem(f"{needed_by}: {program} cannot be run: {error.strerror}; expected a Python") from None
    except (subprocess.SubprocessError, ValueError):
        raise EnvironmentProblem(f"{needed_by}: {program} does not answer as a Python does") from None


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
