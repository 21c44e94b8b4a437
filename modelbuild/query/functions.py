"""The functions of target expressions. Each takes sets of nodes, and returns one."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import networkx as nx

from modelbuild.errors import UsageError
from modelbuild.lines import shown
from modelbuild.query.world import World, closure, package_of

SUITE = "test_suite rule"
_TEST = "_test rule"

Argument = Literal["expression", "text", "number"]


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the language: the types of its arguments, and the number of optional arguments at the end."""

    answer: Callable[..., set[str]]
    takes: tuple[Argument, ...]
    optional: int = 0


def deps(world: World, nodes: Collection[str], depth: int | None = None) -> set[str]:
    """Return the nodes and their dependencies, at most `depth` edges away."""
    return set(closure(world, nodes, depth))


def rdeps(world: World, universe: Collection[str], nodes: Collection[str], depth: int | None = None) -> set[str]:
    """Return the nodes and their dependents, at most `depth` edges away, in the closure of the universe."""
    graph = closure(world, universe)
    found = layer = {node for node in nodes if node in graph}
    while layer and depth != 0:
        depth = None if depth is None else depth - 1
        layer = {user for node in layer for user in graph.predecessors(node)} - found
        found = found | layer
    return found


def somepath(world: World, starts: Collection[str], ends: Collection[str]) -> set[str]:
    """Return the nodes on a shortest path from a start to an end, always the same path; empty if there is no path."""
    graph = closure(world, sorted(starts))
    best: list[str] = []
    for start in sorted(starts):
        for end in sorted(end for end in ends if end in graph):
            if nx.has_path(graph, start, end):
                found = nx.shortest_path(graph, start, end)
                best = found if not best or len(found) < len(best) else best
    return set(best)


def attr(world: World, name: str, pattern: str, nodes: Collection[str]) -> set[str]:
    """Return the targets that have an attribute whose text (see `as_text`) the pattern matches anywhere. An unset
    attribute has its default. For a select, each possible value is matched."""
    regex = compiled(pattern)
    return {
        node
        for node in nodes
        if any(name in table and regex.search(as_text(table[name])) for table in world.attributes(node))
    }


def filter_labels(world: World, pattern: str, nodes: Collection[str]) -> set[str]:
    """Return the nodes whose label the pattern matches anywhere."""
    regex = compiled(pattern)
    return {node for node in nodes if regex.search(world.label(node))}


def kind(world: World, pattern: str, nodes: Collection[str]) -> set[str]:
    """Return the nodes whose kind, such as `pte_program rule` or `source file`, the pattern matches anywhere."""
    regex = compiled(pattern)
    return {node for node in nodes if regex.search(world.kind(node))}


def labels(world: World, attribute: str, nodes: Collection[str]) -> set[str]:
    """Return the targets and files that an attribute of the nodes names."""
    return {named for node in nodes for named in world.labels(node, attribute)}


def buildfiles(world: World, nodes: Collection[str]) -> set[str]:
    """Return the files that declare the targets: BUILD.toml, MODELBUILD.toml, and the workspace's own rules."""
    packages = {package_of(world.label(node)) for node in nodes}
    return {file for package in packages for file in world.build_files(package)}


def tests(world: World, nodes: Collection[str]) -> set[str]:
    """Return the tests among the nodes, and the tests in test suites among the nodes."""
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


def is_test(world: World, node: str) -> bool:
    """Return whether a target is a test: the name of its rule ends in `_test`."""
    return world.kind(node).endswith(_TEST)


def as_text(value: Any) -> str:
    """Return an attribute's value as text: `true`, `3`, `text`, `[a, b]`, `{name = text}`."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(as_text, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {as_text(item)}" for key, item in value.items()) + "}"
    return str(value)


FUNCTIONS: Mapping[str, Function] = {
    "attr": Function(attr, ("text", "text", "expression")),
    "buildfiles": Function(buildfiles, ("expression",)),
    "deps": Function(deps, ("expression", "number"), 1),
    "filter": Function(filter_labels, ("text", "expression")),
    "kind": Function(kind, ("text", "expression")),
    "labels": Function(labels, ("text", "expression")),
    "rdeps": Function(rdeps, ("expression", "expression", "number"), 1),
    "somepath": Function(somepath, ("expression", "expression")),
    "tests": Function(tests, ("expression",)),
}


def compiled(pattern: str) -> re.Pattern[str]:
    """Return a compiled pattern. Raises UsageError for an invalid regular expression, or an expression too big for
    Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about syntax that a later Python may read differently
            return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"query: {shown(pattern)} is not a regular expression: {error}") from None
