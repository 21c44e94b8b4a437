"""The targets of a command line: patterns as arguments, or the lines of --target-pattern-file."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from modelbuild.errors import UsageError
from modelbuild.loading.patterns import parse_pattern
from modelbuild.workspace.flags import STDIN

FLAG = "--target-pattern-file"


@dataclass(frozen=True, slots=True)
class Patterns:
    """Target patterns, and the place of each as `file:line`; () for patterns of the command line."""

    texts: tuple[str, ...]
    places: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Targeted:
    """Options about targets.

    pattern_file  a file of patterns, relative to the current folder; `-` is standard input
    acts          whether actions run
    """

    pattern_file: str | None = None
    acts: bool = True

    def patterns(self, given: tuple[str, ...], folder: Path, default: tuple[str, ...] = ()) -> Patterns:
        """Return the patterns of the command line, of the file, or by default. Raises UsageError for patterns in both,
        for a file that cannot be read or contains no pattern, and for a malformed pattern in it."""
        if self.pattern_file is None:
            if not given and not default:
                raise UsageError(f"missing TARGET; expected patterns such as //..., or {FLAG} FILE")
            return Patterns(given or default)
        if given:
            raise UsageError(f"targets and {FLAG}: expected one of them, got '{given[0]}' as well")
        name = "<stdin>" if self.pattern_file == STDIN else self.pattern_file
        found = list(_lines(name, self._read(folder)))
        if not found:
            raise UsageError(f"{name}: no target; expected one pattern a line")
        return Patterns(tuple(text for text, _ in found), tuple(place for _, place in found))

    def _read(self, folder: Path) -> str:
        assert self.pattern_file is not None
        try:
            data = sys.stdin.buffer.read() if self.pattern_file == STDIN else (folder / self.pattern_file).read_bytes()
            return data.decode()
        except (OSError, ValueError) as error:
            problem = error.strerror if isinstance(error, OSError) else "not UTF-8"
            raise UsageError(f"{FLAG} {self.pattern_file}: {problem}") from None


def _lines(name: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield each pattern with its place. `#` begins a comment, because no pattern contains it."""
    for number, line in enumerate(text.splitlines(), 1):
        pattern = re.sub("#.*", "", line).strip()
        if pattern:
            place = f"{name}:{number}"
            try:
                parse_pattern(pattern, "")
            except UsageError as error:
                raise UsageError(f"{place}: {error}") from None
            yield pattern, place
