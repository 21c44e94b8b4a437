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
    pages = [DOCS / "../README.md", *sorted((DOCS / "tutorial").glob("*.md")), *sorted((DOCS / "how-to").glob("*.md"))]
    return [
        str(page.relative_to(DOCS)) for page in pages if any(isinstance(p, Command) for p in parts(page.read_text()))
    ]


class Reader:
    """Follows pages with the programs of an environment, each in a folder of its own, and once if others start with it.

    A folder contains `work`, the current folder, and `home` with the cache.
    """

    def __init__(self, programs: Path, folder: Path) -> None:
        self._folder = folder
        self._done: set[Path] = set()
        path = os.pathsep.join((str(programs), "/usr/local/bin", "/usr/bin", "/bin"))
        git = {f"GIT_{role}_{what}": "you" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        self._environment = {**git, "PATH": path, "LC_ALL": "C.UTF-8"}

    def follow(self, page: Path) -> Path:
        """Return the folder that a page leaves."""
        folder = self._folder / page.stem
        if page in self._done:
            return folder
        before = start_of(page)
        if before is None:
            (folder / "work").mkdir(parents=True)
            (folder / "home").mkdir()
        else:
            shutil.copytree(self.follow(before), folder, symlinks=True)
        assert follow(page.read_text(), folder / "work", {**self._environment, "HOME": str(folder / "home")})
        self._done.add(page)
        return folder


@pytest.fixture(scope="session")
def reader(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Reader:
    return Reader(installed, tmp_path_factory.mktemp("pages"))


def test_there_are_pages_to_run() -> None:
    assert QUICK in runnable()


@pytest.mark.parametrize(
    "name", [QUICK, *(pytest.param(n, marks=pytest.mark.exhaustive) for n in runnable() if n != QUICK)]
)
def test_a_page_does_what_it_shows(name: str, reader: Reader) -> None:
    reader.follow(DOCS / name)
