"""Errors in declarations: fatal, or a reason to skip the targets concerned."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from modelbuild.errors import LoadingError

Skip: TypeAlias = Callable[[str, LoadingError], None]
"""Called with the label that has an error, or with //package:all. May raise the error."""


def fail(label: str, error: LoadingError) -> None:
    """Raise the error."""
    raise error
