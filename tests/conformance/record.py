"""The recorded outcomes: tests/conformance/outcomes.txt has a line for each operator or form, with a column for each
stack, which has a letter for each kind."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.conformance.attempt import STACKS
from tests.conformance.operators import operators

FILE = Path(__file__).with_name("outcomes.txt")
LETTERS = {
    "right": ".",
    "refused": "r",
    "refused by verify": "v",
    "wrong": "W",
    "cannot run": "C",
    "killed": "K",
    "internal error": "I",
}
HEAD = "\t".join(["# name", *STACKS, ", ".join(f"{letter} {word}" for word, letter in LETTERS.items())])

Row = Mapping[str, str]
"""Letters by stack."""


def recorded() -> dict[str, Row]:
    """Return the recorded outcomes by name."""
    lines = FILE.read_text().splitlines()[1:] if FILE.exists() else []
    rows = (line.split("\t") for line in lines)
    return {name: dict(zip(STACKS, letters, strict=True)) for name, *letters in rows}


def record(name: str, row: Row) -> None:
    """Record the outcomes of a name, which other processes do too."""
    with _lock():
        rows = recorded() | {name: row}
        lines = ("\t".join([each, *(rows[each][stack] for stack in STACKS)]) for each in sorted(rows))
        FILE.write_text("\n".join([HEAD, *lines]) + "\n")


@contextmanager
def _lock() -> Iterator[None]:
    with Path(__file__).open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def letters(words: Sequence[str]) -> str:
    return "".join(LETTERS[word] for word in words)


def figures() -> str:
    """Return how many operators of the recorded outcomes are right, in a line for each stack. An operator is refused if
    none of its kinds is right."""
    rows = {name: row for name, row in recorded().items() if name in operators()}
    lines = []
    for stack in STACKS:
        found = [row[stack] for row in rows.values() if row[stack]]
        right = sum(set(each) == {"."} for each in found)
        refused = sum("." not in each for each in found)
        faults = sum(bool(set(each) - set(".rv")) for each in found)
        lines.append(
            f"{stack}: of {len(operators())} operators {len(rows)} are recorded, {len(found)} with kinds: {right} right"
            f", {len(found) - right - refused} right in some kinds, {refused} refused, {faults} with faults"
        )
    return "\n".join(lines)
