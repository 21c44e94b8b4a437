"""Tests that passed on files with given bytes, by the results in the cache. Nothing is run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from modelbuild.actions import Action, DerivedArtifact, FileEntry
from modelbuild.analysis.analyze import Analyzer, ConfiguredTarget
from modelbuild.analysis.open import open_to_build
from modelbuild.errors import LoadingError, ModelbuildError
from modelbuild.labels import Label
from modelbuild.loading.patterns import expand_patterns
from modelbuild.session.dry_run import DryRun, look_up
from modelbuild.session.engine import Engine
from modelbuild.testing.report import merge, parse_report
from modelbuild.testing.select import test_of
from modelbuild.workspace.workspace import Workspace


@dataclass(frozen=True, slots=True)
class PassedTest:
    """A test whose result in the cache is a pass. `keys` are the keys of its actions, `tested` the SHA-256 of the
    requested files that it read, `report` the digest of its report."""

    label: str
    keys: tuple[str, ...]
    tested: tuple[str, ...]
    report: str


def passed_tests(
    workspace: Workspace,
    engine: Engine,
    devices: Sequence[Label],
    digests: Collection[str],
    owners: Collection[str],
) -> list[PassedTest]:
    """Return the tests that depend on one of the targets `owners`, read a file with one of the digests, and passed.
    Targets with errors are skipped."""
    analyzer = open_to_build(workspace, toolchains=engine.means.toolchains())
    device = devices[0] if devices else None
    tests = [target for target in _tests(analyzer, device) if _needs(analyzer, target, owners)]
    artifacts = [report for target in tests if (test := test_of(target)) for report in test.reports]
    found = look_up(analyzer, artifacts, engine.store, engine.sources)
    passed = [_passed(target, found, engine, digests) for target in tests]
    return sorted(filter(None, passed), key=lambda test: test.label)


def _tests(analyzer: Analyzer, device: Label | None) -> Iterator[ConfiguredTarget]:
    """Yield the workspace's tests, for a device."""

    def skip(label: str, error: LoadingError) -> None:
        """Do nothing."""

    for target in expand_patterns(analyzer.loader, ["//..."], manual=True, skip=skip):
        try:
            configured = analyzer.analyze(target.label, device)
        except ModelbuildError:
            continue
        if test_of(configured) is not None:
            yield configured


def _needs(analyzer: Analyzer, target: ConfiguredTarget, owners: Collection[str]) -> bool:
    """Return whether a target depends on one of the owners."""
    waiting, seen = [target.node], {target.node}
    while waiting:
        for node in analyzer.dependencies[waiting.pop()]:
            if str(node.label) in owners:
                return True
            if node not in seen:
                seen.add(node)
                waiting.append(node)
    return False


def _passed(target: ConfiguredTarget, found: DryRun, engine: Engine, digests: Collection[str]) -> PassedTest | None:
    """Return a test that passed on one of the files; None for any other test."""
    test = test_of(target)
    assert test is not None
    names = [report.action for report in test.reports]
    if any(name not in found.report.results for name in names):
        return None
    values = [found.scheduler.values.value(report) for report in test.reports]
    texts = [engine.store.read_bytes(value.digest) for value in values if isinstance(value, FileEntry)]
    try:
        if merge([parse_report(text) for text in texts]).status != "passed":
            return None
    except ValueError:
        return None
    tested = {sha256 for name in names for sha256 in _read(found, name)}.intersection(digests)
    first = values[0]
    if not tested or not isinstance(first, FileEntry):
        return None
    keys = tuple(found.report.keys[name] for name in names)
    return PassedTest(str(target.node.label), keys, tuple(sorted(tested)), first.digest.hash)


def _read(found: DryRun, name: str) -> Iterator[str]:
    """Yield the SHA-256 of each file that an action read and another action made."""
    action = found.scheduler.graph.nodes[name]
    assert isinstance(action, Action)
    for item in action.inputs:
        if isinstance(found.scheduler.values.resolve(item.artifact), DerivedArtifact):
            value = found.scheduler.values.value(item.artifact)
            entries = [value] if isinstance(value, FileEntry) else [entry for _, entry in value.files]
            yield from (entry.digest.hash for entry in entries)
