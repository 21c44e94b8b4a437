"""Add places in the model's source to error messages of steps.

When an action has failed, the engine adds the nodes' places from the export's debug.json to the message.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from re import Match
from typing import TYPE_CHECKING

from modelbuild.api import DerivedArtifact, ErrorText
from modelbuild_rules.node_references import ATTRIBUTE, NODE, OPERATOR
from modelbuild_rules.providers import ExportedMethod, StackEntry

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import Debug, SourcePlace
    from modelbuild_rules.program.documents import NodeDelegation


def of_program(model: ExportedMethod, stack: Sequence[StackEntry] = ()) -> ErrorText:
    """Return the error text for a step that writes `node_reference`s, and `attribute_reference`s to a stack."""
    return ErrorText((model.debug,), partial(_in_program, [each.places for each in stack]))


def of_programs(models: Iterable[ExportedMethod]) -> ErrorText:
    """Return the error text for a step that names nodes of several models likewise."""
    return ErrorText(tuple(dict.fromkeys(each.debug for each in models)), _in_programs)


def of_partition(model: ExportedMethod, report: DerivedArtifact, partition: str) -> ErrorText:
    """Return the error text for a step that sees only a partition, and writes `operator_reference`s."""
    return ErrorText((model.debug, report), partial(_in_partition, partition))


def _in_program(attributes: Sequence[Mapping[str, str]], problem: str, debug: bytes) -> str:
    def located(found: Match[str]) -> str:
        number = int(found["number"])
        place = attributes[number].get(found["name"]) if number < len(attributes) else None
        return f"{place}: attribute '{found['name']}'" if place else found[0]

    places: Debug = json.loads(debug)
    problem = ATTRIBUTE.sub(located, problem)
    return NODE.sub(lambda found: f"node {found['name']}{_place(places, found['origin'])}", problem)


def _in_programs(problem: str, *debug: bytes) -> str:
    places: dict[str, SourcePlace] = {}
    for each in debug:
        places |= json.loads(each)
    return NODE.sub(lambda found: f"node {found['name']}{_place(places, found['origin'])}", problem)


def _in_partition(partition: str, problem: str, debug: bytes, report: bytes) -> str:
    places: Debug = json.loads(debug)
    facts: list[NodeDelegation] = json.loads(report)
    nodes: dict[int | None, list[str]] = {}
    for fact in facts:
        if fact.get("partition") == partition:
            nodes.setdefault(fact["index"], []).append(f"node {fact['name']}{_place(places, fact['origin'])}")

    def located(found: Match[str]) -> str:
        named = nodes.get(int(found["index"]))
        operator = f" ({found['op']})" if found["op"] else ""
        return found[0] if named is None else " and ".join(named) + operator

    return OPERATOR.sub(located, problem)


def _place(places: Debug, origin: str | None) -> str:
    """Return the place of a node, as ` at net.py:12`; '' if it has none in the user's source."""
    place = places.get(origin or "", {}).get("source")
    return f" at {place}" if place else ""
