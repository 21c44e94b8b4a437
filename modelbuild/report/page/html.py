"""Write the page: the files of template/ and the data in one HTML file, which needs no other."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

VERSION = 1

_TEMPLATE = Path(__file__).parent / "template"
_SCRIPTS = ("dom.js", "summary.js", "timeline.js", "actions.js", "programs.js", "tests.js", "page.js")


def render(data: Mapping[str, Any]) -> str:
    """Return the page. `data` has a `title`, and `build` or `programs`."""
    style = (_TEMPLATE / "page.css").read_text()
    script = "".join((_TEMPLATE / name).read_text() for name in _SCRIPTS)
    # No text of the data can end the element that contains it, and no other script than this one runs.
    text = json.dumps({"version": VERSION, **data}, separators=(",", ":")).replace("<", "\\u003c")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    parts = {"TITLE": escape(str(data["title"])), "DIGEST": digest, "STYLE": style, "DATA": text, "SCRIPT": script}
    before, *rest = (_TEMPLATE / "page.html").read_text().split("@@")
    return before + "".join(parts[part] if number % 2 == 0 else part for number, part in enumerate(rest))


def write(path: Path, data: Mapping[str, Any]) -> None:
    """Write the page. Raises OSError."""
    path.write_text(render(data), encoding="utf-8", errors="backslashreplace")
