"""The packages of modelbuild-runtime beside modelbuild, for a Python of a toolchain."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from modelbuild.code.interpreter import installed
from modelbuild.code.library import packages_beside
from tests.script_rule import install

FILES = {"modelbuild_runtime_native/__init__.py": "", "modelbuild_runtime_native/lib/x.py": "", "one_module.py": ""}


def test_they_are_those_that_the_toolchain_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside, there = tmp_path / "beside", tmp_path / "there"
    for folder in (beside, there):
        folder.mkdir()
    monkeypatch.setattr(sys, "path", [str(beside), *sys.path])
    without = replace(installed(), path=(str(there),), toolchain="//:tools")
    install(beside, "modelbuild_runtime", "1.0", FILES)
    assert packages_beside(without) == {"modelbuild_runtime_native": f"{beside}/modelbuild_runtime_native"}
    assert packages_beside(installed()) == {}
    install(there, "modelbuild_runtime", "2.0", FILES)
    assert packages_beside(without) == {}
