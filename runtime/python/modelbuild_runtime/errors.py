"""What can go wrong when a program is loaded and run, said in one line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ProgramError(Exception):
    """The file is no program, or this runtime can't run it, or running it failed."""


class InputError(ProgramError):
    """What was given as input does not fit the program."""


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """`; did you mean 'x'?`, or the empty string when no candidate is near."""
    near = difflib.get_close_matches(word, sorted(candidates), n=1, cutoff=0.6)
    return f"; did you mean '{near[0]}'?" if near else ""
