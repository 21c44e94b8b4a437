"""Parse labels in files, with errors at the location of the reference."""

from __future__ import annotations

from modelbuild.errors import LoadingError, UsageError
from modelbuild.labels import Label
from modelbuild.workspace.toml_document import Where


def parse_label(text: str, package: str, at: Where) -> Label:
    """Return `Label.parse`, with a LoadingError at the reference instead of a UsageError."""
    try:
        return Label.parse(text, package)
    except UsageError as error:
        raise LoadingError(error.message, at()) from None
