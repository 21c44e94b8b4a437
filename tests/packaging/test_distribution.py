"""The wheels and source archives of both distributions: their contents, and their use outside the checkout."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pytest

import modelbuild
from tests.packaging.installation import COMPILED, ENGINE, PACKAGES, RUNTIME, checkout, environment, interpreter, run

# One worker builds and installs for all tests here.
pytestmark = pytest.mark.xdist_group("distribution")

VERSION = modelbuild.__version__
WHEEL = f"modelbuild-{VERSION}-py3-none-any.whl"
SDIST = f"modelbuild-{VERSION}.tar.gz"
OWN = ".".join(map(str, sys.version_info[:2]))
VERSIONS = [
    pytest.param(each, marks=() if each == OWN else pytest.mark.exhaustive) for each in ("3.11", "3.12", "3.13")
]
# In modelbuild's wheel, of the other's Python package.
COPY = "modelbuild/library/"
RUNTIME_WHEEL = f"modelbuild_runtime-{VERSION}-py3-none-any.whl"


def files_of(wheel: Path) -> set[str]:
    """Return the files of a wheel except its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


@pytest.mark.parametrize(
    ("wheel", "packages", "generated"),
    [
        (WHEEL, ENGINE, {"modelbuild/remote/reapi.binpb"}),
        (RUNTIME_WHEEL, RUNTIME, set()),
    ],
)
def test_a_wheel_has_the_files_of_its_packages_and_no_others(
    repository: Path, dist: Path, wheel: str, packages: dict[str, str], generated: set[str]
) -> None:
    expected = {
        f"{package}/{file.relative_to(repository / folder).as_posix()}"
        for package, folder in packages.items()
        for file in (repository / folder).rglob("*")
        if file.is_file()
        and "__pycache__" not in file.parts
        and file.relative_to(repository / folder).parts[0] not in COMPILED
    }
    names = files_of(dist / wheel)
    assert {name for name in names if not name.startswith(COPY)} == expected | generated
    assert {f"{package}/py.typed" for package in packages} <= names


def test_the_wheel_contains_a_copy_of_the_runtime_for_toolchains(dist: Path) -> None:
    copied = {name.removeprefix(COPY) for name in files_of(dist / WHEEL) if name.startswith(COPY)}
    assert copied == {name for name in files_of(dist / RUNTIME_WHEEL) if name.startswith("modelbuild_runtime/")}


def test_both_wheels_contain_the_licence(repository: Path, dist: Path) -> None:
    for wheel in (WHEEL, RUNTIME_WHEEL):
        info = wheel.removesuffix("-py3-none-any.whl") + ".dist-info"
        with zipfile.ZipFile(dist / wheel) as archive:
            assert archive.read(f"{info}/licenses/LICENSE").decode() == (repository / "LICENSE").read_text()


def test_no_file_is_in_both_wheels(dist: Path) -> None:
    assert files_of(dist / WHEEL).isdisjoint(files_of(dist / RUNTIME_WHEEL))


def test_the_wheel_says_what_it_needs(repository: Path, dist: Path) -> None:
    with zipfile.ZipFile(dist / WHEEL) as archive:
        info = WHEEL.removesuffix("-py3-none-any.whl") + ".dist-info"
        metadata = archive.read(f"{info}/METADATA").decode()
        scripts = archive.read(f"{info}/entry_points.txt").decode()
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    core = [line for line in re.findall(r"^Requires-Dist: (.*)$", metadata, re.MULTILINE) if "extra ==" not in line]
    needed = {"click", "networkx", "packaging", "pydantic", "rich", "tomli", "uv"}
    assert {re.split(r"[<>=]", line)[0] for line in core} == needed
    assert set(re.findall(r"^Provides-Extra: (.*)$", metadata, re.MULTILINE)) == set(project["optional-dependencies"])
    assert scripts == "[console_scripts]\nmodelbuild = modelbuild.cli:main\n"
    assert f"Requires-Dist: modelbuild-runtime=={VERSION}; extra == 'models'" in metadata


def test_the_source_archive_has_what_the_wheel_is_built_from(dist: Path) -> None:
    with tarfile.open(dist / SDIST) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "pyproject.toml",
        "protos/generate.py",
        "protos/NOTICE",
        "README.md",
        "LICENSE",
        *(f"{folder}/__init__.py" for folder in ENGINE.values()),
    } <= names


def test_nothing_is_imported_from_the_checkout(installed: Path, tmp_path: Path) -> None:
    code = f"import {', '.join(PACKAGES)}; print({', '.join(f'{p}.__file__' for p in PACKAGES)}, sep='\\n')"
    files = run(installed / "python", "-c", code, cwd=tmp_path).split()
    assert len(files) == len(PACKAGES)
    assert all(Path(file).is_relative_to(installed.parent) for file in files)


def test_an_editable_install_is_the_checkout_and_costs_no_import(repository: Path, tmp_path: Path) -> None:
    copy = tmp_path / "checkout"
    copy.mkdir()
    checkout(repository, copy)
    home = environment(tmp_path / "venv", "--editable", copy, "--editable", copy / "runtime")
    code = f"import {', '.join(PACKAGES)}; print({', '.join(f'{p}.__file__' for p in PACKAGES)}, sep='\\n')"
    files = run(home / "python", "-c", code, cwd=tmp_path).split()
    assert files == [str(copy / folder / "__init__.py") for folder in PACKAGES.values()]
    assert (copy / "modelbuild" / "remote" / "reapi.binpb").exists()

    assert run(home / "modelbuild", "--version", cwd=tmp_path) == f"modelbuild {modelbuild.__version__}\n"
    told = "import sys; before = set(sys.modules); print(*sorted(before))"
    started = set(run(home / "python", "-c", told, cwd=tmp_path).split())
    counted = "import sys; from modelbuild.cli import invoke; print(*sorted(sys.modules))"
    used = set(run(home / "python", "-c", counted, cwd=tmp_path).split())
    assert started.isdisjoint({"pathlib", "re", "importlib.util"})
    assert used - started == {"__future__", "modelbuild", "modelbuild.cli"}

    pip = (sys.executable, "-m", "pip", "--python", home / "python")
    run(*pip, "uninstall", "--yes", "modelbuild", "modelbuild-runtime", cwd=tmp_path)
    assert not (home / "modelbuild").exists()
    assert subprocess.run([home / "python", "-c", "import modelbuild"], cwd=tmp_path, env={}, check=False).returncode


@pytest.mark.parametrize("version", VERSIONS)
def test_a_filegroup_builds_with_the_core_dependencies_alone(
    dist: Path, tmp_path: Path, repository: Path, version: str
) -> None:
    home = tmp_path / "venv"
    run(interpreter(version), "-m", "venv", "--without-pip", home, cwd=tmp_path)
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
    assert modelbuild.__version__ in run(program, "--version", cwd=workspace)
    assert "build" in run(program, "--help", cwd=workspace)
    run(program, "build", "//...", cwd=workspace, MODELBUILD_CACHE_DIR=cache)
    (built,) = (workspace / "modelbuild-out").rglob("words.txt")
    assert built.read_text() == "one\n"

    run(*pip, "install", dist / RUNTIME_WHEEL, cwd=tmp_path)
    printed = run(home / "bin/python", "-c", "import modelbuild_runtime, sys; print(sys.version)", cwd=workspace)
    assert printed.startswith(version)


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
