"""The versions of tools at a revision, as far as they can differ from those at the other one: by lock files."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from modelbuild.affected.lock_files import pins
from modelbuild.code.distributions import canonical


@dataclass(frozen=True, slots=True)
class Versions:
    """`moved`: the pins of this revision that the other one does not have so, by distribution; `lock` digests all pins
    (or the whole file, where it pins nothing that can be read), '' when no lock file changed."""

    moved: Mapping[str, str] = field(default_factory=dict)
    lock: str = ""

    def of(self, named: Iterable[str], absent: Collection[str], unknown: bool) -> dict[str, str]:
        """What an action's key will say of tools, by canonical names. `absent` are names of those that are not
        installed, or of modules; `unknown`: it has Python inputs that are not built yet."""
        if not self.lock:
            return dict.fromkeys(sorted(named), "")
        found = {name: self.moved.get(name, "") for name in sorted({*named, *map(canonical, absent)})}
        if unknown or absent or not self.moved:
            found["(lock)"] = self.lock  # what these require in turn cannot be told
        return found


def compare_locks(old: Mapping[str, str | None], new: Mapping[str, str | None]) -> tuple[Versions, Versions]:
    """The versions of two revisions, by what their lock files (path -> text, None: not there) say."""
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
