"""Explain why each action of a target ran or was cached in its last build."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

from modelbuild.explain.causes import Cause, Causes, Times, makers_first
from modelbuild.history.action_facts import ActionFacts
from modelbuild.history.action_records import ActionRecord, Records

Reason: TypeAlias = Literal["first", "changed", "unchanged", "lost", "failed", "cutoff", "elsewhere"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The explanation of one action.

    reason   first      it was never part of a build here (cached: another workspace or machine has run it)
             changed    its key differs from the last run that did not fail (or the last one), because of `causes`
             elsewhere  like changed, compared with the target's last build for another device, `compared`
             unchanged  its key is the same as the last time
             cutoff     unchanged, although actions that it depends on ran: the outputs of `because` are unchanged
             lost       unchanged, but its result was no longer in the cache
             failed     unchanged, but its last run failed
    """

    facts: ActionFacts
    reason: Reason
    causes: tuple[Cause, ...] = ()
    because: tuple[str, ...] = ()
    compared: str = ""


def explain(records: Records, label: str) -> list[Verdict]:
    """Return verdicts on a target's actions and on everything they depend on, makers first; empty if never built."""
    return _explained(records, records.actions_of(label))


def explain_build(records: Records, build: int) -> dict[str, Verdict]:
    """Return verdicts on the actions of a build, if none of the actions was in a later build."""
    names = set(records.actions_in(build))
    return {each.facts.id: each for each in _explained(records, sorted(names)) if each.facts.id in names}


def _explained(records: Records, wanted: Iterable[str]) -> list[Verdict]:
    def makers(name: str) -> tuple[str, ...]:
        rows = records.rows(name)
        return rows[0].facts.makers if rows else ()

    verdicts = _Verdicts(records)
    return [verdicts.of(name) for name in makers_first(wanted, makers) if records.rows(name)]


def last_success(records: Records, label: str) -> int | None:
    """Return the last build in which all of a target's actions succeeded, as far as they were in any; None if one never
    did."""
    found = [_succeeded(records.rows(name)) for name in records.actions_of(label)]
    return min((rows[0].last if rows else 0 for rows in found), default=0) or None


def _succeeded(rows: Sequence[ActionRecord]) -> list[ActionRecord]:
    return [row for row in rows if row.facts.status != "failed"]


def _base(older: Sequence[ActionRecord]) -> ActionRecord | None:
    """Return the row to compare with: the newest that did not fail, or the newest; None if there is none."""
    return next(iter([*_succeeded(older), *older]), None)


class _Verdicts:
    """Explains actions, makers first, and keeps results for the actions that depend on them."""

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
        base = _base(older)
        if base is not None and base.facts.key == row.facts.key:
            return Verdict(row.facts, "lost" if row.facts.status == "ran" else "unchanged")
        if base is not None:
            builds = (base.last, row.last)
            if builds not in self._causes:
                self._causes[builds] = Causes(self._times(*builds))
            return Verdict(row.facts, "changed", self._causes[builds].of(name))
        others = self._records.elsewhere(name)
        if not others:
            return Verdict(row.facts, "first")
        times = self._times(others[0].last, row.last, {name: others[0].facts})
        return Verdict(row.facts, "elsewhere", Causes(times).of(name), (), others[0].facts.id)

    def _moved_above(self, row: ActionRecord) -> frozenset[str]:
        """Return the nearest actions upstream whose key changed in the last build of `row`."""
        found: set[str] = set()
        for name in {maker for maker in row.facts.makers if maker}:
            rows = self._records.rows(name)
            if not rows:
                continue
            maker, base = rows[0], _base(rows[1:])
            changed = base is None or base.facts.key != maker.facts.key
            if maker.last == row.last and maker.first == row.last and changed:
                found.add(name)
            else:
                found |= {up for up in self._moved.get(name, ()) if self._records.rows(up)[0].last == row.last}
        return frozenset(found)

    def _times(self, then: int, now: int, instead: Mapping[str, ActionFacts] = MappingProxyType({})) -> Times:
        """Return two builds to compare; `instead` replaces facts of the earlier build."""

        def at(build: int, name: str) -> ActionFacts | None:
            return next((row.facts for row in self._records.rows(name) if row.first <= build), None)

        def before(name: str) -> ActionFacts | None:
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
