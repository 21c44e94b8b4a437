"""JSON in which no object has two members of one name: readers disagree about which of them counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


def parse_json(data: bytes, spelling: Callable[[str], str] = str) -> Any:
    """Return JSON as values. Names are equal if their `spelling` is, and are returned in this spelling. Raises
    ValueError for anything but JSON in UTF-8, for two members of one name, and for NaN and infinities, and
    RecursionError for JSON that is nested too deeply."""

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = {spelling(name): value for name, value in pairs}
        if len(found) != len(pairs):
            raise ValueError("an object has two members of one name")
        return found

    def refuse(name: str) -> Any:
        raise ValueError(f"{name} is not JSON")

    return json.loads(data.decode(), object_pairs_hook=members, parse_constant=refuse)
