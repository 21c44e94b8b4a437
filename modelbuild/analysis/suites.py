"""Test suites: names for several targets."""

from __future__ import annotations

from collections.abc import Iterator

from modelbuild.analysis.analyze import Analyzer, ConfiguredTarget

SUITE = "test_suite"


def members(analyzer: Analyzer, target: ConfiguredTarget) -> Iterator[ConfiguredTarget]:
    """Yield the targets of a suite and of suites in it; for any other target, the target itself."""
    waiting = [target]
    while waiting:
        each = waiting.pop()
        if each.rule == SUITE:
            waiting += [analyzer.targets[node] for node in reversed(analyzer.dependencies[each.node])]
        else:
            yield each
