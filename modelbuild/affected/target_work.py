"""The work of targets: the actions that they need, and the actions' seconds in earlier builds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from modelbuild.actions import Expansion
from modelbuild.analysis.analyze import Analyzer, ConfiguredTarget
from modelbuild.analysis.suites import members
from modelbuild.api.providers import TestAction
from modelbuild.history.estimates import action_estimates, expected_seconds
from modelbuild.ids import ActionId
from modelbuild.labels import Label

# The work that an expansion declares later is one part, named by the target.
_EXPANDED = "#*"


def work_of(
    analyzer: Analyzer, labels: Iterable[Label], devices: Iterable[Label], cache: Path
) -> tuple[dict[str, set[str]], dict[str, float]]:
    """Return the parts of each target's work by label, and the seconds of each part.

    A suite is replaced by its members. A part is an action, or all actions that a target's expansions declared in
    earlier builds. An action that never ran counts as what is typical of its kind, or as one second. Raises
    LoadingError.
    """
    work: dict[str, set[str]] = defaultdict(set)
    for label in labels:
        for device in tuple(devices) or (None,):
            for target in members(analyzer, analyzer.analyze(label, device)):
                work[str(target.node.label)] |= _actions(analyzer, target)
    return work, _seconds({part for parts in work.values() for part in parts}, analyzer, cache)


def _actions(analyzer: Analyzer, target: ConfiguredTarget) -> set[str]:
    reports = [report for p in target.providers if isinstance(p, TestAction) for report in p.reports]
    found = analyzer.graph.needed_for([*target.files(), *reports])
    expanding = {node.owner for node in map(analyzer.graph.nodes.__getitem__, found) if isinstance(node, Expansion)}
    return found | {f"{owner}{_EXPANDED}" for owner in expanding}


def _seconds(parts: Iterable[str], analyzer: Analyzer, cache: Path) -> dict[str, float]:
    nodes = analyzer.graph.nodes
    expanded: dict[str, float] = defaultdict(float)
    for name, seconds in action_estimates(cache).items():
        if name not in nodes:
            expanded[f"{ActionId(name).owner}{_EXPANDED}"] += seconds
    actions = [part for part in parts if part in nodes and not isinstance(nodes[part], Expansion)]
    return (
        dict.fromkeys(parts, 0.0) | expected_seconds(cache, actions) | {p: expanded[p] for p in parts if p in expanded}
    )
