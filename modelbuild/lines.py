"""Single-line text: the characters allowed in paths and names, and how other characters are escaped."""

from __future__ import annotations

import re

# Control characters, line separators, and lone surrogates, which represent bytes that are not UTF-8.
_OTHER = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
# And directions of text, which a path may contain.
_ESCAPED = re.compile(f"{_OTHER.pattern}|[\u202a-\u202e\u2066-\u2069]")

# ExecuTorch's libraries print such lines about the processor on stderr, for any program.
NOISE = "[cpuinfo_utils.cpp:"

EXPECTED = "expected UTF-8 without control characters and line breaks"


def is_line(text: str) -> bool:
    """Return whether text has no control characters and line breaks, and can be written as UTF-8."""
    return _OTHER.search(text) is None


def one_line(text: str) -> str:
    r"""Return text with control characters, line breaks and bytes that are not UTF-8 escaped: `a\nb`, `\x1b[0m`."""
    return _ESCAPED.sub(lambda found: repr(found[0])[1:-1], text)


def shown(text: str, most: int = 60) -> str:
    """Return text in quotes, on one line and truncated, for an error message."""
    quoted = repr(text[:most])
    return quoted if len(text) <= most and len(quoted) <= most else f"{quoted[: most - 3]}..."


def without_noise(text: str) -> str:
    """Return printed text without the lines of libraries that concern no program."""
    if NOISE not in text:
        return text
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(NOISE))
