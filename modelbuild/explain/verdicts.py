"""Why each action of a target ran in the last build that it was part of, or why it did not have to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

from modelbuild.explain.causes import Cause, Causes, Times
from modelbuild.explain.order import makers_first
from modelbuild.history.action_facts import Facts
from modelbuild.history.action_records import Records, Row

Reason: TypeAlias = Literal["first", "changed", "unchanged", "lost", "failed", "cutoff", "elsewhere"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of one action.

    reason   first      it was never part of a build here (cached: another workspace or machine has run it)
             changed    its key is another one than the last time, because of `causes`
             elsewhere  as changed, compared with the target's last build for another device, `compared`
             unchanged  it has the key it had the last time
             cutoff     so too, although actions that it reads from ran, `because` of which outputs came out as before
             lost       so too, but its result was not in the cache any more
             failed     so too, but its last run failed
    """

    facts: Facts
    reason: Reason
    causes: tuple[Cause, ...] = ()
    because: tuple[str, ...] = ()
    compared: str = ""


def explain(records: Records, label: str) -> list[Verdict]:
    """The actions of a target and those that they read from, makers first; empty when it was never built."""

    def makers(name: str) -> tuple[str, ...]:
        rows = records.rows(name)
        return rows[0].facts.makers if rows else ()

    names = makers_first(records.actions_of(label), makers)
    verdicts = _Verdicts(records)
    return [verdicts.of(name) for name in names if records.rows(name)]


class _Verdicts:
    """Explains actions, makers first, and keeps what their readers' explanations need."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._causes: dict[tuple[int, int], Causes] = {}
        self._moved: dict[str, frozenset[str]] = {}

    def of(self, name: str) -> Verdict:
        row, *older = self._records.rows(name)
        moved = self._moved[name] = self._moved_above(row)
        if row.first < row.last:
            if row.facts.status == "ran":
                return Verdict(row.facts, "lost")
            return Verdict(row.facts, "cutoff" if moved else "unchanged", because=tuple(sorted(moved)))
        if older and older[0].facts.key == row.facts.key:
            return Verdict(row.facts, "failed")
        if older:
            builds = (older[0].last, row.last)
            if builds not in self._causes:
                self._causes[builds] = Causes(self._times(*builds))
            return Verdict(row.facts, "changed", self._causes[builds].of(name))
        others = self._records.elsewhere(name)
        if not others:
            return Verdict(row.facts, "first")
        times = self._times(others[0].last, row.last, {name: others[0].facts})
        return Verdict(row.facts, "elsewhere", Causes(times).of(name), (), others[0].facts.id)

    def _moved_above(self, row: Row) -> frozenset[str]:
        """The nearest actions upstream that had another key than before in the build that `row` was in last."""
        found: set[str] = set()
        for name in {maker for maker in row.facts.makers if maker}:
            maker = next(iter(self._records.rows(name)), None)
            if maker is None:
                continue
            if maker.last == row.last and maker.first == row.last:
                found.add(name)
            else:
                found |= {up for up in self._moved.get(name, ()) if self._records.rows(up)[0].last == row.last}
        return frozenset(found)

    def _times(self, then: int, now: int, instead: Mapping[str, Facts] = MappingProxyType({})) -> Times:
        """Two builds to compare; `instead` are facts that stand in for those of the earlier one."""

        def at(build: int, name: str) -> Facts | None:
            return next((row.facts for row in self._records.rows(name) if row.first <= build), None)

        def before(name: str) -> Facts | None:
            found = instead.get(name) or at(then, name)
            if found is not None:
                return found
            return next((row.facts for row in self._records.elsewhere(name) if row.first <= then), None)

        return Times(
            before,
            lambda name: at(now, name),
            lambda node: self._records.target(node, then),
            lambda node: self._records.target(node, now),
        )
