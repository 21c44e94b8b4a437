"""Run uv, which makes environments, and explain its failures on one line."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from modelbuild.errors import EnvironmentProblem, Location
from modelbuild.store.problems import NO_SPACE, no_space
from modelbuild.toolchain.lock_file import Lock

_GET_IT = "install uv beside modelbuild with pip, or put it on PATH"

# uv's messages, without line breaks: a pattern, and the problem with the names in it.
_NO_WHEEL = re.compile(r"Because (?P<name>\S+?)(?:==\S+)? has no (?:usable )?wheels\b")
_NO_BINARY = re.compile(r"Package `(?P<name>[^`=]+)(?:==[^`]+)?` can't be installed because it is marked as")
_ABSENT = re.compile(r"Because (?:there is no version of )?(?P<name>[\w.-]+?)(?:==\S+)? (?:was not found|and you)")
_HASH = re.compile(r"Hash mismatch for `(?P<name>[^`=]+)(?:==[^`]+)?`")
_PYTHON = re.compile(r"Python requirement: `(?P<wanted>[^`]+)`|does not satisfy (?P<also>Python\S+)")
_FETCH = re.compile(r"Request failed|Failed to fetch|error sending request|client error|dns error|network was disabled")
_PLACE = re.compile(r"`(/[^`]+)`")
_FULL = re.compile(r"os error (?:28|122)|" + re.escape(NO_SPACE))


def find_uv() -> str:
    """Return the path of uv: the uv installed with modelbuild, or the first uv on PATH. Raises EnvironmentProblem."""
    beside = Path(sys.prefix, "bin", "uv")
    found = str(beside) if os.access(beside, os.X_OK) else _of_module() or shutil.which("uv")
    if not found:
        raise EnvironmentProblem(f"toolchains are made by uv, which is not installed; {_GET_IT}")
    return found


def _of_module() -> str:
    """Return the path of uv in a distribution on Python's path, such as a user's own; '' if there is none."""
    try:
        from uv import find_uv_bin
    except ImportError:
        return ""
    try:
        return str(find_uv_bin())
    except FileNotFoundError:
        return ""


class UvFailed(Exception):
    """An error of uv, with its message."""


def run_uv(arguments: Sequence[str], folder: Path) -> str:
    """Run uv in a folder and return its output. Raises Failed, and EnvironmentProblem without uv."""
    command = [find_uv(), *arguments, "--no-progress", "--color=never"]
    given = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "CONDA_PREFIX")}
    try:
        process = subprocess.Popen(
            command, cwd=folder, env=given, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    except OSError as error:
        raise EnvironmentProblem(f"{command[0]} cannot be run: {error.strerror}; {_GET_IT}") from None
    with process:
        try:
            out, err = process.communicate()
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        text = err.decode(errors="replace")
        raise UvFailed(text if process.returncode > 0 else f"{text}\nuv was killed by signal {-process.returncode}")
    return out.decode(errors="replace")


def explain(text: str, lock: Lock, cache: Path, python: str, platform: str) -> EnvironmentProblem:
    """Return the error for uv's message about an installation, located in the lock file if it is about one package.

    python, platform  the Python and the platform of the environment, such as 3.11.7 and linux-x86_64
    """
    line = " ".join(text.split())
    if _FULL.search(line):
        named = _PLACE.findall(line)
        return no_space(cache if not named or named[-1].startswith(f"{cache}/") else Path(named[-1]).parent)
    if (found := _HASH.search(line)) is not None:
        return _about(lock, found, "the archive that the index has is not one that the lock has a hash of")
    if _FETCH.search(line):
        cause = re.findall(r"(?:cause|Caused by): (.*)", text)
        why = re.sub(r"\s*for url.*", "", cause[-1].strip()) if cause else "no answer"
        advice = "expected a connection, or an environment that `modelbuild fetch` made"
        return EnvironmentProblem(f"{lock.path}: the package index cannot be reached: {why}; {advice}")
    if (found := _NO_WHEEL.search(line) or _NO_BINARY.search(line)) is not None:
        advice = "expected one in the lock, or its name in 'from_source' of the toolchain"
        return _about(lock, found, f"no wheel for Python {python} on {platform}; {advice}")
    if (found := _PYTHON.search(line)) is not None:
        wanted = found["wanted"] or found["also"]
        return EnvironmentProblem(f"{lock.path} is for Python {wanted}, and the toolchain has Python {python}")
    if (found := _ABSENT.search(line)) is not None:
        return _about(lock, found, "not found in the package index that uv is configured for")
    error = line.partition("error: ")[2] or line
    return EnvironmentProblem(f"{lock.path}: uv cannot install it: {_short(error)}")


def _about(lock: Lock, found: re.Match[str], problem: str) -> EnvironmentProblem:
    pin = lock.pin(found["name"].strip("`"))
    if pin is None:
        return EnvironmentProblem(f"{found['name']}: {problem}", Location(lock.path, 1, 1))
    return EnvironmentProblem(f"{pin.name} {pin.version}".rstrip() + f": {problem}", pin.location)


def _short(text: str) -> str:
    return text if len(text) < 500 else f"{text[:500]}..."
