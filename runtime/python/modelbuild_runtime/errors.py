"""Errors of loading and running a program, each with a one-line message."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

# Control characters, line separators, directions of text, and surrogates (Python's form of bytes that are not UTF-8).
_OTHER = re.compile("[\0-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class ProgramError(Exception):
    """Raised if the file is not a program, this runtime cannot run it, or running it failed."""


class InputError(ProgramError):
    """Raised for inputs that do not match the program."""


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """Return `; did you mean 'x'?`, or the empty string if no candidate is near."""
    near = [] if len(word) > 200 else difflib.get_close_matches(word, sorted(candidates), n=1, cutoff=0.6)
    return f"; did you mean '{near[0]}'?" if near else ""


def one_line(text: str) -> str:
    """Return the text with control characters, line separators and invalid UTF-8 escaped."""
    return _OTHER.sub(lambda found: repr(found[0])[1:-1], text)
