"""Regular expressions in queries."""

from __future__ import annotations

import re
import warnings

from modelbuild.errors import UsageError
from modelbuild.lines import shown


def compiled(pattern: str) -> re.Pattern[str]:
    """Return a compiled pattern. Raises UsageError for an invalid regular expression, or an expression too big for
    Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about syntax that a later Python may read differently
            return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"query: {shown(pattern)} is not a regular expression: {error}") from None
