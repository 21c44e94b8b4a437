"""Read a label that stands in a file: what is wrong with it is told at its place."""

from __future__ import annotations

from modelbuild.errors import LoadingError, UsageError
from modelbuild.labels import Label
from modelbuild.workspace.toml_document import Where


def parse_label(text: str, package: str, at: Where) -> Label:
    """`Label.parse`, raising LoadingError at the reference."""
    try:
        return Label.parse(text, package)
    except UsageError as error:
        raise LoadingError(error.message, at()) from None
