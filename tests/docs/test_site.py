"""`make site`: every document is a page, and a broken link or anchor fails."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def build(root: Path, out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)


def test_every_document_is_a_page_and_no_link_is_broken(repository: Path, tmp_path: Path) -> None:
    ended = build(repository, tmp_path)
    assert ended.returncode == 0, ended.stderr
    documents = {page.relative_to(repository / "docs").with_suffix(".html") for page in repository.glob("docs/**/*.md")}
    documents |= {Path("project", f"{page.stem.lower()}.html") for page in repository.glob("*.md")}
    assert {page.relative_to(tmp_path) for page in tmp_path.rglob("*.html")} == documents | {Path("404.html")}
    index = (tmp_path / "index.html").read_text()
    assert {str(page) for page in documents} <= {"index.html", *re.findall(r'href="([^"#]+)', index)}


@pytest.mark.exhaustive
@pytest.mark.parametrize("link", ["gone.md", "reference/cli.md#gone", "../gone.py"])
def test_a_broken_link_fails(link: str, repository: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(repository / "docs", copy / "docs")
    for name in ("mkdocs.yml", "tools", *(page.name for page in repository.glob("*.md"))):
        source = repository / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, copy / name)
    index = copy / "docs/index.md"
    index.write_text(index.read_text() + f"\nSee [this]({link}).\n")
    ended = build(copy, tmp_path / "site")
    assert ended.returncode == 1
    assert link.removeprefix("../") in ended.stderr
