"""The versions of tools at a revision, as far as lock files show a difference from the other revision."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import tomli

from modelbuild.code.distributions import canonical


@dataclass(frozen=True, slots=True)
class Versions:
    """`moved`: pins that differ from the other revision, by distribution. `lock`: a digest of all pins (or of the whole
    file, if no pins can be parsed), '' if no lock file changed."""

    moved: Mapping[str, str] = field(default_factory=dict)
    lock: str = ""

    def of(self, named: Iterable[str], absent: Collection[str], unknown: bool) -> dict[str, str]:
        """Return the expected versions in an action's key, by canonical names. `absent` are names of tools or modules
        that are not installed; `unknown`: it has Python inputs that are not built yet."""
        if not self.lock:
            return dict.fromkeys(sorted(named), "")
        found = {name: self.moved.get(name, "") for name in sorted({*named, *map(canonical, absent)})}
        if unknown or absent or not self.moved:
            found["(lock)"] = self.lock  # their requirements are unknown
        return found


def compare_locks(old: Mapping[str, str | None], new: Mapping[str, str | None]) -> tuple[Versions, Versions]:
    """Return the versions at two revisions, according to their lock files (path -> text, None: missing)."""
    before, after = ({p: pins(text or "") for p, text in each.items()} for each in (old, new))
    changed = [p for p in old if old[p] != new[p] and (before[p] != after[p] or not after[p])]
    if not changed:
        return Versions(), Versions()
    readable = all(before[p] and after[p] for p in changed)
    moved = {n for p in changed for n in before[p].keys() | after[p].keys() if before[p].get(n) != after[p].get(n)}
    one, other = (
        Versions(
            {n: " ".join(side[p].get(n, "") for p in changed) for n in moved} if readable else {},
            hashlib.sha256(repr([texts[p] for p in changed]).encode()).hexdigest(),
        )
        for side, texts in ((before, old), (after, new))
    )
    return one, other


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
