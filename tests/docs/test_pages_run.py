"""Tutorials and how-to guides do what they show: their files and commands, run with the installed wheels."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.docs.pages import Command, follow, parts, start_of

pytestmark = pytest.mark.xdist_group("distribution")

DOCS = Path(__file__).parents[2] / "docs"
QUICK = "how-to/custom-rule.md"
"""The page that `make test` runs."""


def runnable() -> list[str]:
    pages = sorted([*(DOCS / "tutorial").glob("*.md"), *(DOCS / "how-to").glob("*.md")])
    return [
        str(page.relative_to(DOCS)) for page in pages if any(isinstance(p, Command) for p in parts(page.read_text()))
    ]


def run(page: Path, folder: Path, programs: Path) -> Path:
    """Follow a page, and before it the page that it starts with. Returns the workspace's folder."""
    before = start_of(page)
    work = folder / "work"
    if before is None:
        work.mkdir(parents=True)
    else:
        run(before, folder, programs)
    home = folder / "home"
    home.mkdir(exist_ok=True)
    who = {f"GIT_{role}_{what}": "you" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    path = os.pathsep.join((str(programs), "/usr/local/bin", "/usr/bin", "/bin"))
    done = follow(page.read_text(), work, {**who, "PATH": path, "HOME": str(home), "LC_ALL": "C.UTF-8"})
    assert done
    return work


def test_there_are_pages_to_run() -> None:
    assert QUICK in runnable()


@pytest.mark.parametrize(
    "name", [QUICK, *(pytest.param(n, marks=pytest.mark.exhaustive) for n in runnable() if n != QUICK)]
)
def test_a_page_does_what_it_shows(name: str, installed: Path, tmp_path: Path) -> None:
    run(DOCS / name, tmp_path, installed)
    shutil.rmtree(tmp_path / "home")  # the caches of all pages would take gigabytes
