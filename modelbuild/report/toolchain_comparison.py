"""Compare the programs and tests that two toolchains made."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from modelbuild.analysis.open import open_analyzer
from modelbuild.errors import UsageError
from modelbuild.events import BuildFinished, Event, TargetBuilt, TargetFailed, TestFinished
from modelbuild.ids import TargetId
from modelbuild.inspect.delegation import read_delegation
from modelbuild.loading.patterns import expand_patterns
from modelbuild.query.target_world import TargetWorld
from modelbuild.report.files.comparison import SHOWN, titles_of
from modelbuild.session.history import output_bytes
from modelbuild.wording import number
from modelbuild.workspace.workspace import Workspace

VERSION = 1
_DELEGATION = "delegation.json"
_TEST_SUFFIX = "_test rule"  # the end of each test rule's name
_DIGITS = 12
_MOST = 5  # operators in a line


@dataclass(slots=True)
class Side:
    """A reporter that keeps the results of a build: by a target's id, the SHA-256 of each file, values by name, the
    nodes outside partitions by operator, and results of tests.

    toolchain  the name of the toolchain
    """

    workspace: Workspace
    toolchain: str
    files: dict[str, dict[str, str]] = field(default_factory=dict)
    values: dict[str, dict[str, float]] = field(default_factory=dict)
    left: dict[str, Counter[str]] = field(default_factory=dict)
    results: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    _built: list[TargetBuilt] = field(default_factory=list)

    def emit(self, event: Event) -> None:
        match event:
            case TargetBuilt() if event.outputs:
                self._built.append(event)
            case TargetFailed():
                self.failed[TargetId.of(event.label, event.config)] = event.because
            case TestFinished():
                subject = TargetId.of(event.label, event.config)
                self.results[subject] = event.status + (f": {event.reason}" if event.reason else "")
                self.values.setdefault(subject, {}).update(event.measures)
            case BuildFinished():
                for built in self._built:
                    self._read(built)

    def close(self) -> None:
        """Do nothing."""

    def value(self, subject: str, name: str) -> float | None:
        """Return a value for reports to compare with."""
        return self.values.get(subject, {}).get(name)

    def _read(self, event: TargetBuilt) -> None:
        """Read outputs, which the next build replaces."""
        subject = TargetId.of(event.label, event.config)
        values = self.values.setdefault(subject, {})
        values["bytes"] = float(output_bytes(self.workspace, event.outputs))
        self.files[subject] = dict(_digests(self.workspace.root, event.outputs))
        for path in event.outputs:
            found = read_delegation(self.workspace.root / path) if path.endswith(f"/{_DELEGATION}") else None
            if found is not None:
                left = [node.op for node in found.nodes if node.partition is None]
                self.left[subject] = Counter(left)
                values |= {"delegates": float(len(found.partitions)), "nodes": float(len(found.nodes))}
                values["delegated"] = float(len(found.nodes) - len(left))


def _digests(root: Path, outputs: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the path and SHA-256 of each file, below the folder of its target."""
    for output in outputs:
        top = root / output
        for path in sorted(each for each in top.rglob("*") if each.is_file()) if top.is_dir() else [top]:
            with path.open("rb") as file:
                yield path.relative_to(top.parent).as_posix(), hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class ComparedFact:
    """A fact about a target in both toolchains. `change` is '' if nothing changed."""

    subject: str
    title: str
    before: str
    after: str
    change: str = ""


def rows(before: Side, after: Side) -> Iterator[ComparedFact]:
    """Yield the facts about programs and tests that the comparison shows, in the order of the later build."""
    subjects = dict.fromkeys((*before.files, *after.files, *before.failed, *after.failed, *after.results))
    for subject in subjects:
        both = (before, after)
        failures = [f"not built: {side.failed[subject]} failed" if subject in side.failed else "" for side in both]
        if any(failures):
            old, new = (failure or "built" for failure in failures)
            yield ComparedFact(subject, "build", old, new, "" if all(failures) else "differs")
        old, new = (side.results.get(subject, "") for side in both)
        if old or new:
            yield ComparedFact(subject, "result", old, new, "" if old == new else "differs")
        yield from _measured(subject, before, after)
        yield from _contents(subject, before, after)


def _measured(subject: str, before: Side, after: Side) -> Iterator[ComparedFact]:
    was, now = before.values.get(subject, {}), after.values.get(subject, {})
    titles = {**SHOWN, **titles_of({**was, **now}), "delegated": "delegated nodes", "nodes": "nodes"}
    own = [name for name in dict.fromkeys((*was, *now)) if name not in titles and name.startswith("accuracy_")]
    for name in (*titles, *own):
        if name in was or name in now:
            old, new = was.get(name), now.get(name)
            change = f"{(new - old) / old:+.1%}" if old and new is not None and old != new else ""
            before_text, after_text = ("" if each is None else number(each) for each in (old, new))
            yield ComparedFact(subject, titles.get(name, name.replace("_", " ")), before_text, after_text, change)


def _contents(subject: str, before: Side, after: Side) -> Iterator[ComparedFact]:
    was, now = before.left.get(subject, Counter()), after.left.get(subject, Counter())
    if was != now:
        yield ComparedFact(subject, "outside of partitions", _operators(was - now), _operators(now - was), "differ")
    old, new = before.files.get(subject, {}), after.files.get(subject, {})
    for path in dict.fromkeys((*old, *new)):
        if old and new:
            same = old.get(path) == new.get(path)
            shown = [side.get(path, "")[:_DIGITS] for side in (old, new)]
            yield ComparedFact(subject, path, shown[0], "same bytes" if same else shown[1], "" if same else "differs")


def _operators(found: Counter[str]) -> str:
    named = [f"{count} {name}" for name, count in sorted(found.items())]
    more = f", and {len(named) - _MOST} more operators" if len(named) > _MOST else ""
    return ", ".join(named[:_MOST]) + more


def as_json(before: Side, after: Side) -> dict[str, Any]:
    """Return a comparison as JSON values: for each target, the result of each toolchain."""

    def of(side: Side, subject: str) -> dict[str, Any]:
        facts = {
            "failed": side.failed.get(subject),
            "result": side.results.get(subject),
            "values": side.values.get(subject, {}),
            "files": side.files.get(subject, {}),
            "left": dict(side.left.get(subject, {})),
        }
        return {name: value for name, value in facts.items() if value}

    subjects = sorted({name for side in (before, after) for name in (*side.files, *side.results, *side.failed)})
    return {
        "version": VERSION,
        "toolchains": [before.toolchain, after.toolchain],
        "targets": [{"target": name, "before": of(before, name), "after": of(after, name)} for name in subjects],
        "changes": [[row.subject, row.title, row.before, row.after] for row in rows(before, after) if row.change],
    }


def with_tests(workspace: Workspace, patterns: Sequence[str], package: str) -> tuple[str, ...]:
    """Return the labels of the targets that match patterns, and of tests in the workspace that name one of them. Raises
    UsageError for patterns without targets, and LoadingError."""
    analyzer = open_analyzer(workspace)
    world = TargetWorld(analyzer.loader, analyzer.rules, "")
    asked = [str(target.label) for target in expand_patterns(analyzer.loader, patterns, package)]
    if not asked:
        raise UsageError(f"no target in {' '.join(patterns)}")
    every = [label for name in analyzer.loader.packages_below("") for label in world.packages.members(name)]
    tests = [label for label in every if world.kind(label).endswith(_TEST_SUFFIX) and _is_wanted(world, label)]
    return tuple(dict.fromkeys((*asked, *(test for test in tests if not set(asked).isdisjoint(world.needs(test))))))


def _is_wanted(world: TargetWorld, label: str) -> bool:
    target = world.packages.target(label)
    return target is not None and "manual" not in target.tags


def lines(before: Side, after: Side, only_changes: bool = False) -> Iterator[str]:
    """Yield a table: each target, and its rows below it."""
    found = [row for row in rows(before, after) if row.change or not only_changes]
    if not found:
        yield "nothing differs" if only_changes else "nothing was built"
        return
    head = ComparedFact("", "", before.toolchain, after.toolchain, "change")
    title, old, new = (max(len(getattr(row, name)) for row in (head, *found)) for name in ("title", "before", "after"))
    subject = ""
    yield f"  {'':{title}}  {head.before:{old}}  {head.after:{new}}  {head.change}"
    for row in found:
        if row.subject != subject:
            subject = row.subject
            yield subject
        yield f"  {row.title:{title}}  {row.before:{old}}  {row.after:{new}}  {row.change}".rstrip()
