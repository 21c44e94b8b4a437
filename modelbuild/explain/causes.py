"""Follow a changed key to what the user changed: through inputs to the actions that made them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from modelbuild.explain.differences import Difference, attribute_differences, differences
from modelbuild.explain.order import makers_first
from modelbuild.history.action_facts import Facts

Lookup: TypeAlias = Callable[[str], Facts | None]
TargetLookup: TypeAlias = Callable[[str], dict[str, Any] | None]

# Parts of a key that a rule makes of attributes.
_FROM_ATTRIBUTES = frozenset(("parameter", "step", "output", "environment", "threads", "gpu", "tool"))


@dataclass(frozen=True, slots=True)
class Hop:
    """A way through actions: the first of them, and the rest of the way. Ways that end alike share their ends, so that
    those of a chain of actions take no more room than the chain."""

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

    action   the action whose key has it
    through  the way from the action asked about to that one, which is the last on it; None where they are the same
    target   for an attribute, the target that has it
    """

    difference: Difference
    action: str
    through: Hop | None = None
    target: str = ""

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """Equal for the same difference found on two ways."""
        return self.difference.kind, self.difference.name, self.action, self.target


@dataclass(frozen=True, slots=True)
class Times:
    """Two moments to compare: actions by id and targets by node, as they were and as they are."""

    old: Lookup
    new: Lookup
    old_target: TargetLookup
    new_target: TargetLookup


class Causes:
    """Causes of changed keys between two moments. Answers about actions that read from each other share their work."""

    def __init__(self, times: Times) -> None:
        self._times = times
        self._known: dict[str, tuple[Cause, ...]] = {}

    def of(self, action: str) -> tuple[Cause, ...]:
        """Return why the key of an action differs; each cause once. Empty when it is the same."""
        for name in makers_first([action], self._changed_makers, self._known):
            self._known[name] = self._causes(name)
        return self._known[action]

    def _changed_makers(self, action: str) -> Iterable[str]:
        for each in self._differences(action):
            maker = self._maker(action, each)
            if maker and self._differences(maker):
                yield maker

    def _maker(self, action: str, each: Difference) -> str:
        """The action that makes an input which differs."""
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
        whole = found + (_attributes(action, self._times) if parts else []) + parts
        return tuple({cause.identity: cause for cause in reversed(whole)}.values())[::-1]


def _attributes(action: str, times: Times) -> list[Cause]:
    """The attributes that differ, of the target itself and of those that it reads directly."""
    found: list[Cause] = []
    old, new = times.old(action), times.new(action)
    if old is None or new is None:
        return found
    then, now = times.old_target(old.owner), times.new_target(new.owner)
    if then is None or now is None:
        return found
    pairs = [(new.owner, then, now)]
    pairs += [(node, a, b) for node in now["needs"] if (a := times.old_target(node)) and (b := times.new_target(node))]
    for node, was, is_ in pairs:
        found += [Cause(each, action, None, node) for each in attribute_differences(was, is_)]
    return found
