"""Pages in Debian's Chromium, without a window: the document after its script ran."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

_VOID = {"br", "col", "hr", "img", "input", "link", "meta"}


@dataclass
class Node:
    """An element of a document."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Node | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All text in the element, with single spaces."""
        return " ".join(" ".join(self._texts()).split())

    def _texts(self) -> list[str]:
        return [text for child in self.children for text in ([child] if isinstance(child, str) else child._texts())]

    def all(self, tag: str = "", **attributes: str) -> list[Node]:
        """Return the elements below with this tag and attributes (`class_`: one of the classes)."""
        below = [child for child in self.children if isinstance(child, Node)]
        return [
            each for child in below for each in ([child] * child._is(tag, attributes) + child.all(tag, **attributes))
        ]

    def _is(self, tag: str, attributes: dict[str, str]) -> bool:
        wanted = dict(attributes)
        kind = wanted.pop("class_", None)
        return (
            tag in ("", self.tag)
            and (kind is None or kind in self.attributes.get("class", "").split())
            and all(self.attributes.get(name) == value for name, value in wanted.items())
        )

    def one(self, tag: str = "", **attributes: str) -> Node:
        (found,) = self.all(tag, **attributes)
        return found

    def rows(self) -> list[list[str]]:
        """Return the cells' texts of the tables below, without their heads."""
        rows = [row for body in self.all("tbody") for row in body.all("tr")]
        return [[cell.text for cell in row.children if isinstance(cell, Node)] for row in rows]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open = [Node("document")]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        made = Node(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(made)
        if tag not in _VOID:
            self.open.append(made)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"<{self.open[-1].tag}> ends as </{tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def data_of(page: Path) -> Any:
    """Return the data of a page. Fails if a text in it could end its element."""
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.DOTALL)
    assert "<" not in found
    return json.loads(found)


def opened(page: Path, folder: Path, fragment: str = "") -> Node:
    """Return the document of a page, without its data and script. Fails if a script failed, or did not reach its end.
    Skips the test, as not run, where there is no Chromium. `folder` is for the browser's files."""
    document = _document(page, folder, fragment)
    problem = document.one("p", id="script-error")
    assert "hidden" in problem.attributes, problem.text
    assert "data-ready" in document.one("html").attributes, "the script did not reach its end"
    return document


def _document(page: Path, folder: Path, fragment: str) -> Node:
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("not run: needs chromium (Debian's package chromium), which .ci/run installs")
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions"]
    # No network: the page must not need one.
    flags += ["--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={folder}", "--window-size=1300,900"]
    address = page.resolve().as_uri() + (f"#{fragment}" if fragment else "")
    command = [program, *flags, "--virtual-time-budget=3000", "--dump-dom", address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    reader = _Reader()
    reader.feed(re.sub(r"<script[^>]*>.*?</script>", "", done.stdout, flags=re.DOTALL))
    return reader.open[0]
