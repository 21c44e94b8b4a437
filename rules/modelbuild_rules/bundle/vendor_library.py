"""The type of attributes that name libraries of other vendors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import AfterValidator

from modelbuild.api import Attrs, Source, is_line


def _version(text: str) -> str:
    if not re.fullmatch(r"\d{1,4}(\.\d{1,4}){1,4}", text, re.ASCII):
        raise ValueError(f"'{text}' is not a version; expected numbers with dots, such as 1.6.1.120")
    return text


def _line(text: str) -> str:
    if not is_line(text) or not text.strip():
        raise ValueError("expected a licence in one line, such as 'NVIDIA SDK License Agreement'")
    return text


class VendorLibrary(Attrs):
    """A library that compiled partitions load and the runtime lacks."""

    renamed: ClassVar[Mapping[str, str]] = {"licence": "license", "licence_file": "license_file"}

    file: Source
    """A file or a `pypi_file`, under the name by which the program loads it."""

    version: Annotated[str, AfterValidator(_version)]
    """Its version, such as "1.6.1.120"."""

    license: Annotated[str, AfterValidator(_line)]
    """The licence for distribution, in one line of the bundle's manifest."""

    license_file: Source | None = None
    """The licence's text, which the bundle then contains."""
