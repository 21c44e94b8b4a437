"""The folders that an action may read, for all relative positions of the workspace and Python."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

import pytest

from modelbuild.code import search_path
from modelbuild.execution.isolation import environment


def test_a_folder_that_holds_the_workspace_is_opened_around_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For example a workspace in /usr/src/app."""
    for folder in ("usr/lib", "usr/src/app/models", "usr/src/other"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "usr/src/link").symlink_to("app")
    monkeypatch.setattr(environment, "SYSTEM", (str(tmp_path / "usr"),))
    found = environment.readable(tmp_path / "usr/src/app", [])
    assert [path for path in found if path.startswith(str(tmp_path))] == [
        str(tmp_path / "usr/lib"),
        str(tmp_path / "usr/src/other"),
    ]


def test_import_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Return folders of installed distributions outside the workspace, and of Python's own modules."""
    workspace = tmp_path / "repository/workspace"
    inside = workspace / "venv/lib/site-packages"
    elsewhere = tmp_path / "packages"
    for folder in (inside, elsewhere, workspace / "lib"):
        (folder / "x-1.dist-info").mkdir(parents=True)
    (tmp_path / "code").mkdir()
    monkeypatch.setattr(sys, "prefix", str(workspace / "venv"))
    own = [sysconfig.get_path("stdlib"), f"{sysconfig.get_path('stdlib')}/lib-dynload"]
    found = [str(workspace), str(workspace / "lib"), str(tmp_path), str(inside), str(elsewhere), str(elsewhere)]
    monkeypatch.setattr(sys, "path", ["", str(tmp_path / "code"), *own, *found])
    assert search_path.import_path(workspace) == [*own, str(inside), str(elsewhere)]


@pytest.mark.parametrize("first", ["", "current", "program"])
def test_the_programs_folder_is_no_search_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "bin/modelbuild")])
    entry = {"": "", "current": str(tmp_path), "program": str(tmp_path / "bin")}[first]
    (tmp_path / "code").mkdir()
    monkeypatch.setattr(sys, "path", [entry, "code", str(tmp_path), "__editable__.x.finder", "code"])
    expected = [str(tmp_path / "code"), str(tmp_path), "__editable__.x.finder"]
    assert search_path.search_path() == expected


def test_the_workspace_is_not_among_them(tmp_path: Path) -> None:
    found = environment.readable(tmp_path, [str(tmp_path)])
    assert not any(path.startswith(str(tmp_path)) for path in found)
    assert os.path.realpath(sys.prefix) in found


def test_holes(tmp_path: Path) -> None:
    """Return the readable rest of site-packages without rule packages."""
    for name in ("a", "b/one", "b/two", "c"):
        (tmp_path / name).mkdir(parents=True)
    holes = [str(tmp_path / "b/one"), str(tmp_path / "c"), "/elsewhere"]
    assert list(environment.without(str(tmp_path), holes)) == [str(tmp_path / "a"), str(tmp_path / "b/two")]
    assert list(environment.without(str(tmp_path / "c"), holes)) == []
