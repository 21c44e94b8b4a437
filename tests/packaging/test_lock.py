"""requirements.lock has digests for all requirements of pyproject.toml, and names no download source."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import modelbuild
import modelbuild_runtime

PIN = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>[^ ]+)(?: ; (?P<marker>.+?))?((?: --hash=sha256:[0-9a-f]{64})+)")
EXTRAS = ("models", "tensorrt-rtx", "cuda", "runtime-build", "test", "remote", "docs", "dev")
# This project's distributions, which are installed from the checkout.
OWN = re.compile(r"modelbuild(-runtime.*)?")


@pytest.fixture(scope="module")
def text(repository: Path) -> str:
    return (repository / "requirements.lock").read_text()


@pytest.fixture(scope="module")
def project(repository: Path) -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    return project


def requirements(project: dict[str, Any], extras: tuple[str, ...]) -> Iterator[Requirement]:
    """Return the project's requirements with some extras; extras that name the project itself are expanded."""
    for line in [*project["dependencies"], *(d for e in extras for d in project["optional-dependencies"][e])]:
        requirement = Requirement(line)
        if not OWN.fullmatch(canonicalize_name(requirement.name)):
            yield requirement
        else:
            assert requirement.extras <= set(extras)


def pins(text: str, python: str) -> dict[str, str]:
    """Return name -> version of the distributions that the lock installs on Linux with a version of Python."""
    lines = re.sub(r" *\\\n *", " ", re.sub(r"^ *(#.*)?\n", "", text, flags=re.MULTILINE)).splitlines()
    matches = [(line, PIN.fullmatch(line)) for line in lines]
    assert [line for line, match in matches if match is None] == []
    environment = {"python_version": python, "python_full_version": f"{python}.1", "sys_platform": "linux"}
    found: dict[str, str] = {}
    for _, match in matches:
        assert match is not None
        if match["marker"] is None or Marker(match["marker"]).evaluate({**environment, "os_name": "posix"}):
            assert match["name"] not in found, f"{match['name']} is locked twice for Python {python}"
            found[match["name"]] = match["version"]
    return found


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_agrees_with_pyproject(text: str, project: dict[str, Any], python: str) -> None:
    locked = pins(text, python)
    wanted = list(requirements(project, EXTRAS))
    assert len(wanted) > 10
    wrong = [
        f"{requirement} (locked: {locked.get(canonicalize_name(requirement.name))})"
        for requirement in wanted
        if not requirement.specifier.contains(locked.get(canonicalize_name(requirement.name), "0"), prereleases=True)
    ]
    assert wrong == []


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_has_what_decides_a_programs_bytes_in_one_version(text: str, project: dict[str, Any], python: str) -> None:
    exact = {"torch": "2.14.0", "executorch": "1.5.1", "torch-tensorrt-rtx": "2.14.0", "tensorrt-rtx": "1.6.1.120"}
    asked = {canonicalize_name(r.name): str(r.specifier) for r in requirements(project, EXTRAS)}
    assert {name: asked[name] for name in exact} == {name: f"=={version}" for name, version in exact.items()}
    locked = pins(text, python)
    assert {name: locked[name] for name in exact} == exact


def test_distributions_of_the_project_are_of_one_version(project: dict[str, Any]) -> None:
    lines = [line for lines in project["optional-dependencies"].values() for line in lines]
    own = [each for each in map(Requirement, lines) if each.name.startswith("modelbuild-runtime")]
    assert sorted({each.name for each in own}) == [
        "modelbuild-runtime",
        "modelbuild-runtime-aarch64",
        "modelbuild-runtime-x86-64",
    ]
    assert {str(each.specifier) for each in own} == {f"=={modelbuild.__version__}"}
    assert modelbuild_runtime.__version__ == modelbuild.__version__


def test_names_no_place(text: str) -> None:
    assert "://" not in text
    assert not re.search(r"^\s*(-|--(index|extra|find|trusted))", re.sub(r"^ +--hash=.*\n", "", text, flags=re.M), re.M)
    assert not re.search(r"\b[a-z0-9-]+\.(org|com|io|net|dev)\b", text)
