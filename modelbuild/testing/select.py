"""Select the tests of requested targets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from modelbuild.analysis.analyze import Analyzer, ConfiguredTarget
from modelbuild.analysis.suites import members
from modelbuild.api.providers import Runnable, TestAction


def test_of(target: ConfiguredTarget) -> TestAction | None:
    """Return a target's TestAction, or None if it is not a test."""
    return next((provider for provider in target.providers if isinstance(provider, TestAction)), None)


def programs_of(analyzer: Analyzer, tests: Iterable[ConfiguredTarget]) -> list[ConfiguredTarget]:
    """Return the programs that tests name in their attributes, each once."""
    named = dict.fromkeys(node for test in tests for node in analyzer.dependencies[test.node])
    targets = [analyzer.targets[node] for node in named]
    return [target for target in targets if any(isinstance(provider, Runnable) for provider in target.providers)]


def select_tests(
    analyzer: Analyzer, targets: Iterable[ConfiguredTarget], tags: Sequence[str] = ()
) -> list[ConfiguredTarget]:
    """Return the tests among targets and in their suites, each once. With tags: tests that have one of the given tags
    and no tag given with `-`."""
    found: dict[str, ConfiguredTarget] = {}
    for target in targets:
        for member in members(analyzer, target):
            if test_of(member) is not None:
                found.setdefault(member.id, member)
    wanted = {tag for tag in tags if not tag.startswith("-")}
    unwanted = {tag[1:] for tag in tags if tag.startswith("-")}

    def chosen(target: ConfiguredTarget) -> bool:
        own = set(analyzer.loader.target(target.node.label).tags)
        return not own & unwanted and (not wanted or bool(own & wanted))

    return [target for target in found.values() if chosen(target)]
