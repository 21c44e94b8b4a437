"""Pinned versions in lock files: if these differ between two revisions, so do the tools."""

from __future__ import annotations

import re
from collections.abc import Mapping

import tomli

from modelbuild.code.distributions import canonical

_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*\])?\s*==\s*([^\s;\\#]+)", re.MULTILINE)


def pins(text: str) -> Mapping[str, str]:
    """Return versions by distribution from a file of pip, uv, poetry, pdm or PEP 751; none for other text."""
    found: dict[str, list[str]] = {}
    for name, version in _PIN.findall(text) or _packages(text):
        found.setdefault(canonical(name), []).append(version)
    return {name: " ".join(sorted(versions)) for name, versions in found.items()}


def _packages(text: str) -> list[tuple[str, str]]:
    try:
        data = tomli.loads(text)
    except (ValueError, RecursionError):
        return []
    tables = data.get("package", data.get("packages"))
    if not isinstance(tables, list):
        return []
    packages = [(table.get("name"), table.get("version", "")) for table in tables if isinstance(table, dict)]
    return [(name, version) for name, version in packages if isinstance(name, str) and isinstance(version, str)]
