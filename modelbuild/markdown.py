"""Any text as Markdown (GitHub's) that shows it as it is, on one line, also in a cell of a table."""

from __future__ import annotations

import re

from modelbuild.lines import one_line

# An underscore between letters begins no emphasis, and stays readable in the file.
_SPECIAL = re.compile(r"[\\`*\[\]<>&|~$#]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")


def markdown(text: str) -> str:
    """Return Markdown without emphasis, links, HTML or a cell's end."""
    return _SPECIAL.sub(r"\\\g<0>", one_line(text))


def markdown_code(text: str) -> str:
    """Return text as code. Text with a backtick or a bar is quoted as other text is: code has no escapes."""
    return markdown(text) if "`" in text or "|" in text else f"`{one_line(text)}`"
