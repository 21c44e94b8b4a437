"""The wheel and the source archive: their contents, and use of the wheel outside the checkout."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import numpy as np
import pytest

import modelbuild

# One worker builds and installs for all tests here.
pytestmark = pytest.mark.xdist_group("distribution")

PACKAGES = {
    "modelbuild": "modelbuild",
    "modelbuild_rules": "rules/modelbuild_rules",
    "modelbuild_runtime": "runtime/python/modelbuild_runtime",
}
WHEEL = f"modelbuild-{modelbuild.__version__}-py3-none-any.whl"
SDIST = f"modelbuild-{modelbuild.__version__}.tar.gz"


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
    for folder in ("protos", *PACKAGES.values()):
        shutil.copytree(repository / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


@pytest.fixture(scope="session")
def dist(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the source archive, and the wheel built from it."""
    copy = checkout(repository, tmp_path_factory.mktemp("checkout"))
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", copy / "dist", copy, cwd=copy)
    return copy / "dist"


def test_the_wheel_has_the_three_packages_and_nothing_else(repository: Path, dist: Path) -> None:
    with zipfile.ZipFile(dist / WHEEL) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = {
        f"{package}/{file.relative_to(repository / folder).as_posix()}"
        for package, folder in PACKAGES.items()
        for file in (repository / folder).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert names == expected | {"modelbuild/cli/help.txt", "modelbuild/remote/reapi.binpb"}
    assert {f"{package}/py.typed" for package in PACKAGES} <= names


def test_the_wheel_says_what_it_needs(repository: Path, dist: Path) -> None:
    with zipfile.ZipFile(dist / WHEEL) as archive:
        info = WHEEL.removesuffix("-py3-none-any.whl") + ".dist-info"
        metadata = archive.read(f"{info}/METADATA").decode()
        scripts = archive.read(f"{info}/entry_points.txt").decode()
        assert f"{info}/licenses/LICENSE" in archive.namelist()
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    core = [line for line in re.findall(r"^Requires-Dist: (.*)$", metadata, re.MULTILINE) if "extra ==" not in line]
    needed = {"click", "networkx", "packaging", "pydantic", "rich", "tomli"}
    assert {re.split(r"[<>=]", line)[0] for line in core} == needed
    assert set(re.findall(r"^Provides-Extra: (.*)$", metadata, re.MULTILINE)) == set(project["optional-dependencies"])
    assert scripts == "[console_scripts]\nmodelbuild = modelbuild.cli:main\n"


def test_the_source_archive_has_what_the_wheel_is_built_from(dist: Path) -> None:
    with tarfile.open(dist / SDIST) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "pyproject.toml",
        "protos/generate.py",
        "protos/NOTICE",
        "README.md",
        "LICENSE",
        *(f"{f}/__init__.py" for f in PACKAGES.values()),
    } <= names


@pytest.fixture(scope="session")
def installed(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs of the wheel."""
    return environment(tmp_path_factory.mktemp("venv"), dist / WHEEL)


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


def test_nothing_is_imported_from_the_checkout(installed: Path, tmp_path: Path) -> None:
    code = f"import {', '.join(PACKAGES)}; print({', '.join(f'{p}.__file__' for p in PACKAGES)}, sep='\\n')"
    files = run(installed / "python", "-c", code, cwd=tmp_path).split()
    assert len(files) == 3
    assert all(Path(file).is_relative_to(installed.parent) for file in files)


def test_an_editable_install_is_the_checkout_and_costs_no_import(repository: Path, tmp_path: Path) -> None:
    copy = tmp_path / "checkout"
    copy.mkdir()
    home = environment(tmp_path / "venv", "--editable", checkout(repository, copy))
    code = f"import {', '.join(PACKAGES)}; print({', '.join(f'{p}.__file__' for p in PACKAGES)}, sep='\\n')"
    files = run(home / "python", "-c", code, cwd=tmp_path).split()
    assert files == [str(copy / folder / "__init__.py") for folder in PACKAGES.values()]
    assert (copy / "modelbuild" / "remote" / "reapi.binpb").exists()

    assert run(home / "modelbuild", "--version", cwd=tmp_path) == f"modelbuild {modelbuild.__version__}\n"
    told = "import sys; before = set(sys.modules); print(*sorted(before))"
    started = set(run(home / "python", "-c", told, cwd=tmp_path).split())
    counted = "import sys; from modelbuild.cli import invoke; invoke(['--version']); print(*sorted(sys.modules))"
    used = set(run(home / "python", "-c", counted, cwd=tmp_path).splitlines()[1].split())
    assert started.isdisjoint({"pathlib", "re", "importlib.util"})
    assert used - started == {"__future__", "modelbuild", "modelbuild.cli", "modelbuild.cli.quick_path"}

    pip = (sys.executable, "-m", "pip", "--python", home / "python")
    run(*pip, "uninstall", "--yes", "modelbuild", cwd=tmp_path)
    assert not (home / "modelbuild").exists()
    assert subprocess.run([home / "python", "-c", "import modelbuild"], cwd=tmp_path, env={}, check=False).returncode


def test_a_filegroup_builds_with_the_core_dependencies_alone(dist: Path, tmp_path: Path, repository: Path) -> None:
    home = tmp_path / "venv"
    venv.create(home, with_pip=False)
    locked = re.findall(r"^([a-z0-9-]+==[^ \\]+)(?: ;.*)? \\$", (repository / "requirements.lock").read_text(), re.M)
    core = {"click", "pydantic", "pydantic-core", "rich", "tomli", "annotated-types", "typing-extensions"}
    constraints = tmp_path / "constraints.txt"
    constraints.write_text("".join(f"{pin}\n" for pin in locked if pin.partition("==")[0] in core))
    pip = (sys.executable, "-m", "pip", "--python", home / "bin" / "python")
    run(*pip, "install", "--constraint", constraints, dist / WHEEL, cwd=tmp_path)
    assert "torch" not in run(*pip, "list", cwd=tmp_path)

    workspace = tmp_path / "workspace"
    (workspace / "data").mkdir(parents=True)
    (workspace / "MODELBUILD.toml").write_text("")
    (workspace / "data" / "words.txt").write_text("one\n")
    (workspace / "data" / "BUILD.toml").write_text('[[filegroup]]\nname = "words"\nsrcs = ["words.txt"]\n')
    program = home / "bin" / "modelbuild"
    cache = str(tmp_path / "cache")
    assert modelbuild.__version__ in run(program, "version", cwd=workspace)
    run(program, "build", "//...", cwd=workspace, MODELBUILD_CACHE_DIR=cache)
    (built,) = (workspace / "modelbuild-out").rglob("words.txt")
    assert built.read_text() == "one\n"


@pytest.mark.slow
def test_the_example_builds_and_runs_in_a_copied_workspace(installed: Path, repository: Path, tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    shutil.copytree(
        repository / "examples",
        workspace,
        ignore=shutil.ignore_patterns("__pycache__", "modelbuild-out"),
        symlinks=True,
    )
    program, cache = installed / "modelbuild", str(tmp_path / "cache")
    target = "//models:classifier_portable"
    run(program, "build", target, cwd=workspace, MODELBUILD_CACHE_DIR=cache)
    (built,) = (workspace / "modelbuild-out").rglob("classifier_portable.pte")
    assert built.stat().st_size > 10_000
    np.save(tmp_path / "image.npy", np.zeros((1, 3, 64, 64), np.float32))
    given = (f"--input=image={tmp_path / 'image.npy'}", f"--output-dir={tmp_path}", "--repeat=1", "--warmup=0")
    assert "latency" in run(program, "run", target, *given, cwd=workspace, MODELBUILD_CACHE_DIR=cache)
    assert np.load(tmp_path / "probabilities.npy").sum() == pytest.approx(1)
