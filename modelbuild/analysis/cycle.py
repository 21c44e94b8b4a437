"""Cycles of dependencies, as errors show them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def shortest_chain(start: T, end: T, edges: Mapping[T, Iterable[T]]) -> list[T]:
    """Return the nodes on the shortest way from `start` to `end`, which exists, over nodes that `edges` has."""
    before: dict[T, T | None] = {start: None}
    waiting = [start]
    for node in waiting:  # also those added meanwhile
        if node == end:
            break
        for below in edges[node]:
            if below in edges and below not in before:
                before[below] = node
                waiting.append(below)
    chain: list[T] = []
    at: T | None = end
    while at is not None:
        chain.append(at)
        at = before[at]
    return chain[::-1]
