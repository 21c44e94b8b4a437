"""Write the page: the files of template/ and the data in one HTML file, which needs no other file."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from modelbuild.user_files import write_file

VERSION = 1

# Bytes of a path or an argument that are not UTF-8. They are escaped, because some browsers stop at such text.
_NO_CHARACTER = re.compile("[\ud800-\udfff]")

_TEMPLATE = Path(__file__).parent / "template"
_SCRIPTS = ("dom.js", "summary.js", "timeline.js", "actions.js", "programs.js", "profile.js", "tests.js", "page.js")


def render(data: Mapping[str, Any]) -> str:
    """Return the page. `data` has a `title`, and `build` or `programs`, and the `profile` of one program."""
    style = (_TEMPLATE / "page.css").read_text("utf-8")
    script = "".join((_TEMPLATE / name).read_text("utf-8") for name in _SCRIPTS)
    # No text of the data can end the element that contains it, and no other script runs.
    text = json.dumps({"version": VERSION, **data}, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    text = _NO_CHARACTER.sub(lambda found: f"\\\\u{ord(found[0]):04x}", text)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    parts = {"TITLE": escape(str(data["title"])), "DIGEST": digest, "STYLE": style, "DATA": text, "SCRIPT": script}
    before, *rest = (_TEMPLATE / "page.html").read_text("utf-8").split("@@")
    return before + "".join(parts[part] if number % 2 == 0 else part for number, part in enumerate(rest))


def write(path: Path, data: Mapping[str, Any]) -> None:
    """Write the page. Raises as write_file does."""
    write_file(path, render(data))
