"""Follow a changed key to what the user changed: through inputs to the actions that made them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from modelbuild.explain.differences import Difference, attribute_differences, differences
from modelbuild.explain.facts import Facts

Lookup: TypeAlias = Callable[[str], Facts | None]
TargetLookup: TypeAlias = Callable[[str], dict[str, Any] | None]

# Parts of a key that a rule makes of attributes.
_FROM_ATTRIBUTES = frozenset(("parameter", "step", "output", "environment", "threads", "gpu", "tool"))


@dataclass(frozen=True, slots=True)
class Cause:
    """A difference that no other action explains: `action` is where it stands, `through` are the actions between that
    and the one asked about. For an attribute `target` names whose it is."""

    difference: Difference
    action: str
    through: tuple[str, ...] = ()
    target: str = ""


@dataclass(frozen=True, slots=True)
class Times:
    """Two moments to compare: actions by id and targets by node, as they were and as they are."""

    old: Lookup
    new: Lookup
    old_target: TargetLookup
    new_target: TargetLookup


def causes(action: str, times: Times) -> list[Cause]:
    """Why the key of an action is not what it was; each cause once. Empty when it is the same."""
    found: dict[tuple[str, str, str, str], Cause] = {}
    for each in _causes(action, times, (), set()):
        found.setdefault((each.difference.kind, each.difference.name, each.action, each.target), each)
    return list(found.values())


def _causes(action: str, times: Times, through: tuple[str, ...], seen: set[str]) -> list[Cause]:
    old, new = times.old(action), times.new(action)
    if old is None or new is None or action in seen:
        return []
    seen.add(action)
    found: list[Cause] = []
    parts: list[Cause] = []
    for each in differences(old, new):
        maker = each.maker if each.kind == "input" and each.maker in new.makers else ""
        deeper = _causes(maker, times, (*through, maker), seen) if maker else []
        if deeper or (maker and maker in seen and _changed(maker, times)):
            found += deeper
        elif each.kind in _FROM_ATTRIBUTES or (each.kind == "input" and None in (each.old, each.new)):
            parts.append(Cause(each, action, through))
        else:
            found.append(Cause(each, action, through))
    return found + (_attributes(action, old, new, times, through) if parts else []) + parts


def _changed(action: str, times: Times) -> bool:
    old, new = times.old(action), times.new(action)
    return old is not None and new is not None and old.key != new.key


def _attributes(action: str, old: Facts, new: Facts, times: Times, through: tuple[str, ...]) -> list[Cause]:
    """The attributes that differ, of the target itself and of those that it reads directly."""
    found = []
    then, now = times.old_target(old.owner), times.new_target(new.owner)
    if then is None or now is None:
        return []
    pairs = [(new.owner, then, now)]
    pairs += [(node, a, b) for node in now["needs"] if (a := times.old_target(node)) and (b := times.new_target(node))]
    for node, was, is_ in pairs:
        found += [Cause(each, action, through, node) for each in attribute_differences(was, is_)]
    return found
