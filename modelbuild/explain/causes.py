"""Trace a changed key to the user's change, through inputs to the actions that made them."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from modelbuild.explain.differences import Difference, attribute_differences, differences
from modelbuild.history.action_facts import ActionFacts, TargetFacts

Lookup: TypeAlias = Callable[[str], ActionFacts | None]
TargetLookup: TypeAlias = Callable[[str], TargetFacts | None]

# Parts of a key that depend on attributes.
_FROM_ATTRIBUTES = frozenset(("parameter", "step", "output", "environment", "threads", "gpu", "tool"))


@dataclass(frozen=True, slots=True)
class Hop:
    """A path through actions: the first action, and the rest of the path. Paths share common ends, so the paths in a
    chain of actions take no more memory than the chain."""

    action: str
    rest: Hop | None = None

    def __iter__(self) -> Iterator[str]:
        hop: Hop | None = self
        while hop is not None:
            yield hop.action
            hop = hop.rest


@dataclass(frozen=True, slots=True)
class Cause:
    """A difference that no other action explains.

    action   the action with this difference in its key
    through  the path from the explained action to `action`, which is its last; None if they are the same
    target   for an attribute, its target
    """

    difference: Difference
    action: str
    through: Hop | None = None
    target: str = ""

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """Equal for the same difference at the ends of two paths."""
        return self.difference.kind, self.difference.name, self.action, self.target


@dataclass(frozen=True, slots=True)
class Times:
    """Two points in time to compare: actions by id and targets by node, before and after."""

    old: Lookup
    new: Lookup
    old_target: TargetLookup
    new_target: TargetLookup


class Causes:
    """Causes of changed keys between two points in time. Actions with common inputs share their results."""

    def __init__(self, times: Times) -> None:
        self._times = times
        self._known: dict[str, tuple[Cause, ...]] = {}

    def of(self, action: str) -> tuple[Cause, ...]:
        """Return the causes of an action's changed key, each once; empty if the key is the same."""
        for name in makers_first([action], self._changed_makers, self._known):
            self._known[name] = self._causes(name)
        return self._known[action]

    def _changed_makers(self, action: str) -> Iterable[str]:
        for each in self._differences(action):
            maker = self._maker(action, each)
            if maker and self._differences(maker):
                yield maker

    def _maker(self, action: str, each: Difference) -> str:
        """Return the action that makes an input with a difference, or ''."""
        new = self._times.new(action)
        return each.maker if each.kind == "input" and new is not None and each.maker in new.makers else ""

    def _differences(self, action: str) -> list[Difference]:
        old, new = self._times.old(action), self._times.new(action)
        return [] if old is None or new is None or old.key == new.key else differences(old, new)

    def _causes(self, action: str) -> tuple[Cause, ...]:
        found: list[Cause] = []
        parts: list[Cause] = []
        for each in self._differences(action):
            maker = self._maker(action, each)
            deeper = self._known.get(maker, ()) if maker else ()
            if deeper:
                found += [replace(cause, through=Hop(maker, cause.through)) for cause in deeper]
            elif each.kind in _FROM_ATTRIBUTES or (each.kind == "input" and None in (each.old, each.new)):
                parts.append(Cause(each, action))
            else:
                found.append(Cause(each, action))
        attributes = _attributes(action, self._times) if parts else []
        whole = found + attributes + [each for each in parts if not _repeats(each, attributes)]
        return tuple({cause.identity: cause for cause in reversed(whole)}.values())[::-1]


def _repeats(part: Cause, attributes: Sequence[Cause]) -> bool:
    """Return whether a parameter of an action has the values of an attribute, whose cause names the target."""
    values = (part.difference.old, part.difference.new)
    return part.difference.kind == "parameter" and any(
        values == (a.difference.old, a.difference.new) for a in attributes
    )


def _attributes(action: str, times: Times) -> list[Cause]:
    """Return the attributes with differences, of the target itself and of its direct dependencies."""
    found: list[Cause] = []
    old, new = times.old(action), times.new(action)
    if old is None or new is None:
        return found
    then, now = times.old_target(old.owner), times.new_target(new.owner)
    if then is None or now is None:
        return found
    pairs: list[tuple[str, TargetFacts, TargetFacts]] = [(new.owner, then, now)]
    pairs += [(node, a, b) for node in now["needs"] if (a := times.old_target(node)) and (b := times.new_target(node))]
    for node, was, is_ in pairs:
        found += [Cause(each, action, None, node) for each in attribute_differences(was, is_)]
    return found


def makers_first(names: Iterable[str], makers: Callable[[str], Iterable[str]], known: Container[str] = ()) -> list[str]:
    """Return these actions and everything that they depend on, makers first, without actions in `known` and actions
    needed only by them. A chain may be longer than Python's recursion limit."""
    ordered: dict[str, None] = {}
    stack = [(name, False) for name in reversed(list(names))]
    opened: set[str] = set()
    while stack:
        name, ready = stack.pop()
        if ready:
            ordered[name] = None
        elif name not in opened and name not in known:
            opened.add(name)
            stack.append((name, True))
            stack += [(maker, False) for maker in makers(name) if maker and maker not in opened]
    return list(ordered)
