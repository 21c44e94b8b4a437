"""Types of attributes that name and pin a downloaded file."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field


def _check_digest(text: str) -> str:
    if not re.fullmatch(r"[0-9A-Fa-f]{64}", text):
        raise ValueError(f"'{text}' is not a SHA-256; expected 64 hexadecimal digits, as `sha256sum FILE` prints them")
    return text.lower()


def _check_name(text: str) -> str:
    if not is_file_name(text):
        raise ValueError(f"'{text}' is not a file name; expected one without folders")
    return text


def is_file_name(text: str) -> bool:
    """Whether text names a file and no folder."""
    return text not in ("", ".", "..") and "/" not in text and "\0" not in text


Sha256 = Annotated[str, AfterValidator(_check_digest), Field(json_schema_extra={"pattern": "^[0-9A-Fa-f]{64}$"})]
FileName = Annotated[str, AfterValidator(_check_name)]
