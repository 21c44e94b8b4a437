"""Build this project's distributions, and install them outside the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Sequence, Set
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

# Packages by import name, of the distributions modelbuild and modelbuild-runtime.
ENGINE = {"modelbuild": "modelbuild", "modelbuild_rules": "rules/modelbuild_rules"}
RUNTIME = {
    "modelbuild_runtime": "runtime/python/modelbuild_runtime",
    "modelbuild_runtime_native": "runtime/python/modelbuild_runtime_native",
}
PACKAGES = {**ENGINE, **RUNTIME}
# Beside modelbuild_runtime_native in a checkout, and in the runtime's wheels for an architecture.
COMPILED = ("bin", "lib", "include", "share", "runtime.json")


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Run a program to its end, without this process's import path; return its output."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, env={**kept, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def checkout(repository: Path, copy: Path) -> Path:
    """Return a copy of the files that the packages are built from."""
    for name in ("pyproject.toml", ".gitignore", "README.md", "LICENSE"):
        shutil.copy(repository / name, copy)
    for folder in ("protos", "runtime/licenses", *PACKAGES.values()):
        shutil.copytree(repository / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "wheel_hook.py", "README.md", "LICENSE"):
        shutil.copy(repository / "runtime" / name, copy / "runtime")
    return copy


def build(project: Path, out: Path, *flags: str) -> Path:
    """Build a project's source archive, and the wheel from it (or what `flags` name); return the folder."""
    run(sys.executable, "-m", "build", "--no-isolation", *flags, "--outdir", out, project, cwd=project)
    return out


def interpreter(version: str) -> Path:
    """Return an installed Python of a version, such as 3.12; skips the test if there is none. Programs of pyenv that
    its settings do not select fail, so its versions are tried, too."""
    known = sorted(
        Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions").glob(f"{version}.*/bin/python")
    )
    for each in (shutil.which(f"python{version}"), *known):
        if each and subprocess.run([each, "-c", "import venv"], capture_output=True, check=False).returncode == 0:
            return Path(each)
    pytest.skip(f"not run: no Python {version} is installed here")


def environment(home: Path, *wanted: str | Path) -> Path:
    """Return the programs of a virtual environment with these installed packages, which also sees this one's other
    packages."""
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    site = Path(sysconfig.get_path("purelib", vars={"base": str(home)}))
    # A folder on the import path by a .pth file: the .pth files in it, such as the checkout's own, have no effect.
    (site / "third_party.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = (sys.executable, "-m", "pip", "--python", python)
    run(*pip, "install", "--no-deps", "--no-build-isolation", *wanted, cwd=home)
    return home / "bin"


def add_compiled(programs: Path, repository: Path) -> None:
    """Add the files to an environment that the runtime's wheels for an architecture have, and its plain wheel lacks."""
    compiled = repository / RUNTIME["modelbuild_runtime_native"]
    (module,) = programs.parent.glob("lib/*/site-packages/modelbuild_runtime_native")
    for name in COMPILED:
        copy = shutil.copytree if (compiled / name).is_dir() else shutil.copy
        copy(compiled / name, module / name)


def bare_environment(home: Path, extra: str, wheels: Sequence[Path], without: Set[str] = frozenset()) -> Path:
    """Return the programs of a virtual environment with this project's wheels and exactly the distributions that an
    extra requires, except some: links to the files of those installed here, which satisfy the requirements. Skips the
    test if one is not installed."""
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", *wheels, cwd=home)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(home)}))
    own = {each.name: each for each in metadata.distributions(path=[str(site)])}
    linked: set[str] = set()
    done: set[tuple[str, frozenset[str]]] = set()
    pending = [Requirement(f"modelbuild[{extra}]" if extra else "modelbuild")]
    while pending:
        wanted = pending.pop()
        extras = frozenset(wanted.extras)
        if (wanted.name, extras) in done or canonicalize_name(wanted.name) in without:
            continue
        done.add((wanted.name, extras))
        try:
            found = own.get(wanted.name) or metadata.distribution(wanted.name)
        except metadata.PackageNotFoundError:
            pytest.skip(f"not run: the package '{wanted.name}' of modelbuild[{extra}] is not installed here")
        assert wanted.specifier.contains(found.version, prereleases=True), wanted
        if wanted.name not in own and wanted.name not in linked:
            linked.add(wanted.name)
            _link(found, site)
        for line in map(Requirement, found.requires or ()):
            if line.marker is None or any(line.marker.evaluate({"extra": name}) for name in extras or ("",)):
                pending.append(line)
    return home / "bin"


def _link(found: metadata.Distribution, site: Path) -> None:
    """Link a distribution's files into a folder, without its scripts, which name another interpreter."""
    for file in found.files or ():
        source, target = Path(str(found.locate_file(file))), site / file
        if ".." not in file.parts and source.is_file() and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            os.link(source, target)
