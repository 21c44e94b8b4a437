"""The versions of tools at a revision, as far as they can differ from those at the other one: by lock files."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from modelbuild.affected.locks import pins
from modelbuild.errors import LoadingError
from modelbuild.execution.step_code import imported_names
from modelbuild.execution.tools import canonical, imported_distributions


@dataclass(frozen=True, slots=True)
class Versions:
    """`moved`: the pins of this revision that the other one does not have so, by distribution; `lock` digests all pins
    (or the whole file, where it pins nothing that can be read), '' when no lock file changed."""

    moved: Mapping[str, str] = field(default_factory=dict)
    lock: str = ""

    def of(self, tools: Sequence[str], sources: Mapping[str, bytes], unknown: bool) -> dict[str, str]:
        """What an action's key will say of tools. `unknown`: it has Python inputs that are not built yet."""
        named = {canonical(tool) for tool in (*tools, *_imported(sources, tools))}
        if not self.lock:
            return dict.fromkeys(sorted(named), "")
        elsewhere = {top for top in _tops(sources) if importlib.util.find_spec(top) is None}
        found = {name: self.moved.get(name, "") for name in sorted(named | {canonical(top) for top in elsewhere})}
        if unknown or elsewhere or not self.moved:
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


def _imported(sources: Mapping[str, bytes], known: Sequence[str]) -> Sequence[str]:
    try:
        return imported_distributions(sources, known)
    except LoadingError:  # not Python: the build will say so
        return ()


def _tops(sources: Mapping[str, bytes]) -> set[str]:
    """First parts of the names that sources import, but for those of the sources themselves."""
    found: set[str] = set()
    for source in sources.values():
        try:
            found |= {name.partition(".")[0] for name, level in imported_names(source) if level == 0 and name}
        except SyntaxError:
            continue
    return found - {part for path in sources for part in path.removesuffix(".py").split("/")}
