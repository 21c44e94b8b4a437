"""tests(x): the tests among x, those of test suites included."""

from __future__ import annotations

from collections.abc import Collection

from modelbuild.query.world import World, closure

SUITE = "test_suite rule"
_TEST = "_test rule"


def is_test(world: World, node: str) -> bool:
    """Whether a target is a test: as everywhere, its rule is called `..._test`."""
    return world.kind(node).endswith(_TEST)


def tests(world: World, nodes: Collection[str]) -> set[str]:
    found: set[str] = set()
    waiting = list(nodes)
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        if is_test(world, node):
            found.add(node)
        elif world.kind(node) == SUITE:
            inside = set(closure(world, [node], 1)) - seen
            seen |= inside
            waiting += inside
    return found
