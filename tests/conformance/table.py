"""All kinds: those of PyTorch's database by operator, and forms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from tests.conformance import forms, operators
from tests.conformance.kinds import Kind


def names(patterns: Sequence[str] = ("*",)) -> list[str]:
    """Return the names of operators and forms that match one of the patterns, or have kinds that may."""
    every = [*forms.FORMS, *operators.operators()]
    return [name for name in every if any(fnmatchcase(name, p) or p.startswith(f"{name} ") for p in patterns)]


def kinds_of(name: str, patterns: Sequence[str] = ("*",)) -> Iterator[Kind]:
    """Yield the kinds of a name that match a pattern, or whose name does."""
    found = (forms.FORMS[name],) if name in forms.FORMS else operators.kinds(name)
    for kind in found:
        if any(fnmatchcase(each, pattern) for each in (name, kind.name) for pattern in patterns):
            yield kind
