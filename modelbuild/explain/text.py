"""Differences and verdicts as text."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from modelbuild.actions import Place
from modelbuild.explain.causes import Cause, Hop
from modelbuild.explain.changed_since import ChangedSince
from modelbuild.explain.differences import SECRET, Difference
from modelbuild.explain.verdicts import Verdict
from modelbuild.history.action_facts import place_json
from modelbuild.wording import count, duration

_LONGEST = 60
_SHOWN_HOPS = 10
_DIGESTS = frozenset(("input", "local", "module"))


def difference_line(each: Difference) -> str:
    """Return `models/nets.py changed (3f2a1b -> 99ab01)` or `torch: 2.13.0 -> 2.14.0`."""
    if each.kind == "input" and each.name == "order":
        return "the order of the inputs changed"
    if each == SECRET:
        return f"{each.name} changed, which is not recorded"
    if each.kind == "tool":
        return _tool_line(each)
    bare = each.kind == "input" and not each.maker
    what = "" if bare else "local module " if each.kind == "local" else f"{each.kind} "
    if each.kind in _DIGESTS:
        if each.old is None:
            return f"{what}{each.name} is new"
        if each.new is None:
            return f"{what}{each.name} is gone"
        return f"{what}{each.name} changed ({_short(each.old)} -> {_short(each.new)})"
    what = "" if what.strip() == each.name else what
    return f"{what}{each.name}: {_change(each.old, each.new)}"


def _tool_line(each: Difference) -> str:
    """Return a line for a distribution; its value is the version followed by a digest of its files."""
    (was, _, files), (now, _, others) = (str(value or "nothing").partition(" ") for value in (each.old, each.new))
    if was != now:
        return f"{each.name}: {was} -> {now}"
    return f"{each.name} {now} has other files ({_short(files or 'editable')} -> {_short(others or 'editable')})"


def cause_line(cause: Cause) -> str:
    """Return a difference, its place, and the path to it."""
    each = cause.difference
    if cause.target:
        line = f"attribute {each.name} of {cause.target}: {_change(each.old, each.new)}"
    else:
        line = difference_line(each)
    if cause.through is not None:
        line += f" (through {_way(cause.through)})"
    return line


def _way(through: Hop) -> str:
    """Return the actions on a path; for a long path, the first actions and "..."."""
    first = list(islice(through, _SHOWN_HOPS + 1))
    if len(first) <= _SHOWN_HOPS:
        return " <- ".join(first)
    return f"{' <- '.join(first[:-1])} <- ..."


def verdict_lines(verdict: Verdict) -> Iterator[str]:
    """Yield the action and its status, and below it the reasons."""
    facts = verdict.facts
    how = f"ran ({duration(facts.seconds)}{_place(facts.place)})" if facts.status == "ran" else facts.status
    yield f"{facts.id}  {how}"
    yield from (f"  {line}" for line in reason_lines(verdict))


def reason_lines(verdict: Verdict) -> Iterator[str]:
    """Yield the reasons of a verdict."""
    cached = verdict.facts.status == "cached"
    match verdict.reason:
        case "first":
            yield "not in any earlier build here" + ("; its result was already in the cache" if cached else "")
        case "unchanged":
            yield "no input has changed"
        case "cutoff":
            yield f"early cutoff: the outputs that it reads from {', '.join(verdict.because)} are unchanged"
        case "lost":
            yield "no input has changed, but its result was no longer in the cache"
        case "failed":
            yield "no input has changed, but its last run failed"
        case "changed" | "elsewhere":
            if verdict.compared:
                yield f"not in any earlier build for this device; compared with {verdict.compared}"
            yield from (cause_line(cause) for cause in verdict.causes)
            if cached:
                yield "its new result was already in the cache"


def verdict_json(verdict: Verdict) -> dict[str, Any]:
    facts = verdict.facts
    return {
        "action": facts.id,
        "status": facts.status,
        "seconds": facts.seconds,
        "place": (place_json(facts.place) if facts.status == "ran" else None) or None,
        "key": facts.key,
        "reason": verdict.reason,
        "compared": verdict.compared or None,
        "because": list(verdict.because),
        "causes": [_cause(cause) for cause in verdict.causes],
    }


def _cause(cause: Cause) -> dict[str, Any]:
    difference = {**asdict(cause.difference), "maker": cause.difference.maker or None}
    return {**difference, "action": cause.action, "through": list(cause.through or ()), "target": cause.target or None}


def _place(place: Place | None) -> str:
    """Return the worker, and durations of a tenth of a second or more around the run."""
    if place is None:
        return ""
    around = {"waited": place.queued, "got inputs": place.fetching, "sent outputs": place.sending}
    took = [f"{words} {duration(seconds)}" for words, seconds in around.items() if seconds >= 0.0995]
    return f" on {place.worker}" + (f"; {', '.join(took)}" if took else "")


def _short(digest: Any) -> str:
    return str(digest)[:8]


def _change(old: Any, new: Any) -> str:
    """Return two values; of long ones, the parts around the first difference."""
    texts = ["nothing" if each is None else each if isinstance(each, str) else json.dumps(each) for each in (old, new)]
    same = next((place for place, (one, other) in enumerate(zip(*texts, strict=False)) if one != other), 0)
    begin = max(0, same - _LONGEST // 2) if max(map(len, texts)) > _LONGEST else 0
    return " -> ".join(_cut(text, begin) for text in texts)


def _cut(text: str, begin: int) -> str:
    rest = text[begin:]
    return "..." * (begin > 0) + (rest if len(rest) <= _LONGEST else rest[: _LONGEST - 3] + "...")


@dataclass(frozen=True, slots=True)
class BuildTime:
    """The build that changes are listed since, in seconds since 1970: the last one, if none succeeded."""

    seconds: float
    succeeded: bool


def explanation_lines(
    label: str, at: BuildTime, since: ChangedSince, verdicts: Sequence[Verdict], against: Path | None
) -> Iterator[str]:
    """Yield the whole explanation: changes since, the target's own actions, and changed actions upstream."""
    when = f"{'built' if at.succeeded else 'failed'} {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(at.seconds))}"
    if since.problem:
        yield f"{label}, {when}; changes since then are unknown: {since.problem}"
    elif since.causes:
        yield f"{label}, {when}; changed since:"
        yield from (f"  {cause_line(cause)}" for cause in since.causes)
    else:
        yield f"{label}, {when}; nothing has changed since"
    if against is not None:
        yield f"compared with {against}:"
    idle = 0
    for verdict in verdicts:
        if verdict.reason == "unchanged" and verdict.facts.owner.label != label:
            idle += 1
            continue
        yield from verdict_lines(verdict)
    if idle:
        yield f"and {count(idle, 'action')} of other targets, unchanged"


def explanation_json(
    label: str, at: BuildTime, since: ChangedSince, verdicts: Sequence[Verdict], against: Path | None
) -> dict[str, Any]:
    return {
        "version": 1,
        "label": label,
        "built": at.seconds if at.succeeded else None,
        "against": None if against is None else str(against),
        "since": {"problem": since.problem or None, "causes": [_cause(cause) for cause in since.causes]},
        "actions": [verdict_json(verdict) for verdict in verdicts],
    }
