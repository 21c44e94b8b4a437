"""Regular expressions in questions."""

from __future__ import annotations

import re

from modelbuild.errors import UsageError


def compiled(pattern: str) -> re.Pattern[str]:
    """Raises UsageError for what is no regular expression."""
    try:
        return re.compile(pattern)
    except re.error as error:
        raise UsageError(f"query: {pattern!r} is not a regular expression: {error}") from None
