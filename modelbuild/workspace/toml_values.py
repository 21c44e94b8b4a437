"""Write values as TOML."""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Mapping
from typing import Any

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+\Z")


def toml_value(value: Any) -> str:
    """Return a value of tomli's types in TOML, on one line."""
    match value:
        case Mapping():
            inner = ", ".join(f"{toml_key(name)} = {toml_value(each)}" for name, each in value.items())
            return f"{{ {inner} }}" if inner else "{}"
        case list() | tuple():
            return f"[{', '.join(map(toml_value, value))}]"
        case bool():
            return "true" if value else "false"
        case float() if not math.isfinite(value):
            return str(value)
        case datetime.date() | datetime.time():
            return value.isoformat()
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


def toml_key(key: str) -> str:
    """Return a key of a table, in quotes if it needs them."""
    return key if _BARE_KEY.match(key) else toml_value(key)


def toml_table(header: str, values: Mapping[str, Any]) -> str:
    """Return an item of an array of tables, with a line for each of its pairs."""
    return "\n".join([f"[[{toml_key(header)}]]", *(f"{toml_key(k)} = {toml_value(v)}" for k, v in values.items()), ""])
