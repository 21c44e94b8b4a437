"""Types of attributes that name and pin a downloaded file."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from modelbuild.api import is_line


def _check_digest(text: str) -> str:
    if not re.fullmatch(r"[0-9A-Fa-f]{64}", text):
        raise ValueError(f"'{text}' is not a SHA-256; expected 64 hexadecimal digits, as `sha256sum FILE` prints them")
    return text.lower()


def _check_name(text: str) -> str:
    if not is_file_name(text):
        raise ValueError(f"'{text}' is not a file name; expected one without folders and control characters")
    return text


def is_file_name(text: str) -> bool:
    """Return whether a text is a plain file name: no folder, no control characters, at most 255 bytes."""
    return text not in ("", ".", "..") and "/" not in text and is_line(text) and len(text.encode()) <= 255


Sha256 = Annotated[str, AfterValidator(_check_digest), Field(json_schema_extra={"pattern": "^[0-9A-Fa-f]{64}$"})]
FileName = Annotated[str, AfterValidator(_check_name)]
