"""Topological order of actions for explanations."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable


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
