"""Links between the documents: each file and each heading that a link names exists."""

from __future__ import annotations

import re
from pathlib import Path

LINK = re.compile(r"\]\(([^)\s]*)\)|<(?:img|a)\b[^>]*?\b(?:src|href)=\"([^\"]*)\"")
FENCED = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)


def documents(repository: Path) -> list[Path]:
    return [*repository.glob("*.md"), *(repository / "docs").rglob("*.md")]


def anchors(text: str) -> set[str]:
    """Return the anchors of a document's headings, as GitHub and the site make them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", FENCED.sub("", text), re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return found


def broken(document: Path) -> list[str]:
    lacking = []
    for match in LINK.finditer(FENCED.sub("", document.read_text())):
        path, _, anchor = (match[1] or match[2] or "").partition("#")
        if ":" in path:
            continue
        target = (document.parent / path).resolve() if path else document
        if not target.exists() or (anchor and anchor not in anchors(target.read_text())):
            lacking.append(f"{document.name}: {match[0]}")
    return lacking


def test_documents_link_to_files_and_headings_that_exist(repository: Path) -> None:
    found = documents(repository)
    assert len(found) > 15
    assert [link for document in found for link in broken(document)] == []


def test_a_link_to_a_missing_file_or_heading_is_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# A `word` of [it](x.md), now\n")
    page = tmp_path / "page.md"
    page.write_text("[a](there.md#a-word-of-it-now) [b](there.md#other) [c](gone.md) [d](https://example.org/x)\n")
    assert broken(page) == ["page.md: ](there.md#other)", "page.md: ](gone.md)"]


def test_every_document_is_listed_in_the_index(repository: Path) -> None:
    index = (repository / "docs/index.md").read_text()
    pages = {page.relative_to(repository / "docs").as_posix() for page in (repository / "docs").rglob("*.md")}
    assert {page for page in pages - {"index.md"} if f"({page})" not in index} == set()
