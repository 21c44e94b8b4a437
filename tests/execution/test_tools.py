"""Which distributions decide an output: named ones, and those that Python inputs import, with what these require."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from modelbuild.errors import EnvironmentProblem, LoadingError
from modelbuild.execution import tools


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on sys.path with three installed distributions; `alpha` requires `beta`."""
    for name, top, requires in [
        ("Alpha.Vision", "alpha", ["beta>=1; python_version > '3'", "gamma; extra == 'x'"]),
        ("beta", "beta_module", []),
        ("gamma", "gamma", []),
    ]:
        info = tmp_path / f"{name.replace('.', '_')}-1.5.dist-info"
        info.mkdir()
        lines = "".join(f"Requires-Dist: {r}\n" for r in requires)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n{lines}")
        (info / "top_level.txt").write_text(top + "\n")
        (tmp_path / top).mkdir()
        (tmp_path / top / "__init__.py").write_text("")
        (info / "RECORD").write_text(f"{top}/__init__.py,,\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for cached in (tools._version, tools._owners, tools._all_owners, tools._requirements):
        cached.cache_clear()
    yield tmp_path
    for cached in (tools._version, tools._owners, tools._all_owners, tools._requirements):
        cached.cache_clear()


def test_an_import_brings_its_distribution_and_what_it_requires_but_no_extras(site: Path) -> None:
    found = tools.imported_distributions({"m.py": b"def f():\n    import alpha.nets\n"}, known=[])
    assert found == ("alpha-vision", "beta")


def test_a_tool_that_is_named_anyway_is_not_followed(site: Path) -> None:
    assert tools.imported_distributions({"m.py": b"import alpha, gamma"}, known=["alpha_vision"]) == ("gamma",)


def test_standard_library_relative_and_missing_modules_are_no_tools(site: Path) -> None:
    source = b"import json, os.path\nfrom . import alpha\nimport not_installed_anywhere\n"
    assert tools.imported_distributions({"m.py": source}, known=[]) == ()


def test_source_that_is_not_python_is_a_located_error() -> None:
    with pytest.raises(LoadingError, match=r"^models/m\.py:2:5: not Python: "):
        tools.imported_distributions({"models/m.py": b"x = 1\ny = ="}, known=[])


def test_a_tool_that_is_not_installed_names_the_extra() -> None:
    with pytest.raises(EnvironmentProblem, match=r"//m:net needs the package 'no-such-tool'.*modelbuild\[models\]"):
        tools.version("no-such-tool", "//m:net")


@pytest.mark.parametrize(
    ("package", "extra"),
    [("tensorrt", "tensorrt"), ("torch-tensorrt", "tensorrt"), ("torch-tensorrt-rtx", "tensorrt-rtx")]
    + [(f"tensorrt_rtx{rest}", "tensorrt-rtx") for rest in ("", "_cu13_bindings", "_cu13_libs")],
)
def test_a_tool_of_an_extra_of_its_own(monkeypatch: pytest.MonkeyPatch, package: str, extra: str) -> None:
    monkeypatch.setattr(tools, "_version", lambda _: None)
    with pytest.raises(EnvironmentProblem, match=rf"the package '{package}'.*; install modelbuild\[{extra}\]$"):
        tools.version(package, "//m:net")
