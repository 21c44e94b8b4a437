"""The type of attributes that name installed distributions."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?\Z")


def _check(text: str) -> str:
    if not _NAME.match(text):
        raise ValueError(f"'{text}' is not a distribution's name; expected a name such as 'numpy', without a version")
    return text


Distribution = Annotated[str, AfterValidator(_check)]
