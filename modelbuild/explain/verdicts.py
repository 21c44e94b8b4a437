"""Why each action of a target ran in the last build that it was part of, or why it did not have to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from modelbuild.explain.causes import Cause, Times, causes
from modelbuild.explain.facts import Facts
from modelbuild.explain.records import Records, Row

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
    names = _upstream(records, records.actions_of(label))
    return [_verdict(records, name) for name in names]


def _verdict(records: Records, name: str) -> Verdict:
    row, *older = records.rows(name)
    if row.first < row.last:
        if row.facts.status == "ran":
            return Verdict(row.facts, "lost")
        moved = tuple(_moved(records, row))
        return Verdict(row.facts, "cutoff" if moved else "unchanged", because=moved)
    if older and older[0].facts.key == row.facts.key:
        return Verdict(row.facts, "failed")
    if older:
        return Verdict(row.facts, "changed", tuple(causes(name, _times(records, older[0], row))))
    others = records.elsewhere(name)
    if not others:
        return Verdict(row.facts, "first")
    other = others[0]
    return Verdict(row.facts, "elsewhere", tuple(causes(name, _times(records, other, row))), (), other.facts.id)


def _times(records: Records, old: Row, new: Row) -> Times:
    """The build that had the old row, and the one that had the new one."""

    def at(build: int, name: str) -> Facts | None:
        rows = [row for row in records.rows(name) if row.first <= build]
        return rows[0].facts if rows else None

    def before(name: str) -> Facts | None:
        if name == new.facts.id:
            return old.facts
        found = at(old.last, name)
        others = [] if found else [row for row in records.elsewhere(name) if row.first <= old.last]
        return others[0].facts if others else found

    return Times(
        before,
        lambda name: at(new.last, name),
        lambda node: records.target(node, old.last),
        lambda node: records.target(node, new.last),
    )


def _moved(records: Records, row: Row) -> Iterable[str]:
    """The nearest actions upstream that had another key than before in the build that `row` was in last."""
    seen = {maker for maker in row.facts.makers if maker}
    waiting = sorted(seen)
    while waiting:
        name = waiting.pop()
        maker = next(iter(records.rows(name)), None)
        if maker is None:
            continue
        if maker.last == row.last and maker.first == row.last:
            yield name
        else:
            new = [n for n in dict.fromkeys(maker.facts.makers) if n and n not in seen]  # once, however much is read
            seen.update(new)
            waiting += new


def _upstream(records: Records, names: Iterable[str]) -> list[str]:
    """Actions and all that they read from, makers first."""
    ordered: dict[str, None] = {}
    stack = [(name, False) for name in reversed(list(names))]
    while stack:
        name, ready = stack.pop()
        if ready:
            ordered[name] = None
        elif name not in ordered:
            stack.append((name, True))
            rows = records.rows(name)
            makers = rows[0].facts.makers if rows else ()
            stack += [(maker, False) for maker in makers if maker and maker not in ordered]
    return [name for name in ordered if records.rows(name)]
