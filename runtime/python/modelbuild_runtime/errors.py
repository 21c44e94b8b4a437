"""What can go wrong when a program is loaded and run, said in one line."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

# Control characters, what else ends a line, and what is not UTF-8 (as Python holds it).
_OTHER = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class ProgramError(Exception):
    """The file is no program, or this runtime can't run it, or running it failed."""


class InputError(ProgramError):
    """What was given as input does not fit the program."""


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """`; did you mean 'x'?`, or the empty string when no candidate is near."""
    near = [] if len(word) > 200 else difflib.get_close_matches(word, sorted(candidates), n=1, cutoff=0.6)
    return f"; did you mean '{near[0]}'?" if near else ""


def one_line(text: str) -> str:
    """Return text with control characters, line breaks and what is not UTF-8 escaped."""
    return _OTHER.sub(lambda found: repr(found[0])[1:-1], text)
