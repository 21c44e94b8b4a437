"""The events of the last build, from the history and the output tree, without running anything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from modelbuild.events import ActionFinished, BuildFinished, BuildStarted, Event, Status, TargetBuilt, TestFinished
from modelbuild.explain.verdicts import Verdict
from modelbuild.history.action_records import Build
from modelbuild.ids import TargetId
from modelbuild.labels import Label
from modelbuild.testing.report import merge, read_report
from modelbuild.workspace.workspace import OUTPUT_FOLDER


def replay(
    root: Path,
    build: Build,
    verdicts: Mapping[str, Verdict],
    built: Iterable[str],
    estimates: Mapping[str, float],
    devices: Mapping[str, str],
) -> Iterator[Event]:
    """Yield the events of a build in the workspace at `root`.

    verdicts   on its actions, makers first
    built      ids of the targets that it built, with the configuration's folder
    estimates  seconds of actions; a cached action saves its seconds
    devices    the device on which each test ran, by its id
    """
    yield BuildStarted((), len(verdicts))
    for verdict in verdicts.values():
        facts = verdict.facts
        cached = facts.status == "cached"
        status: Status = "cached" if cached else "ran" if facts.status == "ran" else "failed"
        yield ActionFinished(
            facts.id,
            facts.owner,
            facts.mnemonic,
            facts.id.name.replace(":", " "),
            status,
            facts.seconds,
            key=facts.key,
            makers=tuple(sorted({maker for maker in facts.makers if maker})),
            place=facts.place,
            saved=estimates.get(facts.id, 0.0) if cached else 0.0,
        )
    for name in built:
        target = TargetId(name)
        files = sorted(_files(root, f"{OUTPUT_FOLDER}/{target.configuration}/{_folder(target.label)}"))
        yield TargetBuilt(target.label, target.configuration, tuple(files))
    yield from _tests(root, verdicts, devices)
    yield BuildFinished(build.seconds, actions=len(verdicts))


def _tests(root: Path, verdicts: Mapping[str, Verdict], devices: Mapping[str, str]) -> Iterator[TestFinished]:
    """Yield the results of tests among the owners of actions, from their reports in the output tree."""
    for owner in dict.fromkeys(verdict.facts.owner for verdict in verdicts.values()):
        own = [verdict.facts for verdict in verdicts.values() if verdict.facts.owner == owner]
        for folder in sorted((root / OUTPUT_FOLDER).glob(f"*/{_folder(owner.label)}")):
            reports = [read_report(path.read_bytes()) for path in sorted(folder.glob("report*.json"))]
            if reports:
                report = merge(reports)
                config = folder.relative_to(root / OUTPUT_FOLDER).parts[0]
                yield TestFinished(
                    owner.label,
                    config,
                    report.status,
                    report.reason,
                    seconds=sum(facts.seconds for facts in own),
                    cached=all(facts.status == "cached" for facts in own),
                    cases=report.cases,
                    measures=report.measures,
                    device=devices.get(TargetId.of(owner.label, config), ""),
                )


def _folder(label: str) -> str:
    parsed = Label.parse(label)
    return "/".join(part for part in (parsed.package, parsed.name) if part)


def _files(root: Path, folder: str) -> Iterator[str]:
    return (path.relative_to(root).as_posix() for path in (root / folder).rglob("*") if path.is_file())
