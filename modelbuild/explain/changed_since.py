"""Changes since a target's last successful build."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import modelbuild
from modelbuild.actions import Action, DerivedArtifact
from modelbuild.analysis.analyze import ConfiguredTarget
from modelbuild.analysis.open import open_to_build
from modelbuild.api.providers import TestAction
from modelbuild.code.step_sources import StepCode
from modelbuild.errors import ModelbuildError
from modelbuild.explain.causes import Cause, Causes, Times
from modelbuild.history.action_facts import ActionFacts, attributes_of, gather
from modelbuild.history.action_records import Records
from modelbuild.labels import Label
from modelbuild.session.dry_run import dry_run
from modelbuild.workspace.workspace import Workspace


@dataclass(frozen=True, slots=True)
class ChangedSince:
    """Causes for new keys of a target's actions since a build. `problem`: why they are unknown."""

    causes: tuple[Cause, ...] = ()
    problem: str = ""


def pending(
    workspace: Workspace, records: Records, label: Label, devices: Sequence[Label], build: int | None
) -> ChangedSince:
    """Analyse the target and compute keys, without building; compare with a build (None: the last of each action).
    Actions that depend on an action that would run are not covered."""
    try:
        analyzer = open_to_build(workspace)
        targets = [analyzer.analyze(label, device) for device in devices or (None,)]
        dry = dry_run(analyzer, [artifact for target in targets for artifact in (*target.files(), *_reports(target))])
    except ModelbuildError as error:
        return ChangedSince(problem=str(error))
    code = StepCode({"modelbuild": Path(modelbuild.__file__).parent, **analyzer.rules.packages})
    now = gather(dry.scheduler, code, missing="absent")
    attributes = attributes_of(analyzer)

    def before(name: str) -> ActionFacts | None:
        rows = records.rows(name)
        return next((row.facts for row in rows if row.first <= then), rows[-1].facts if rows else None)

    newest = max((row.last for name in now for row in records.rows(name)[:1]), default=0)
    then = newest if build is None else build
    why = Causes(Times(before, now.get, lambda node: records.target(node, then), attributes.get))
    found = {
        each.identity: each
        for name in dry.needed
        if isinstance(analyzer.graph.nodes[name], Action)
        for each in why.of(name)
    }
    return ChangedSince(tuple(found.values()))


def _reports(target: ConfiguredTarget) -> Iterator[DerivedArtifact]:
    """Yield the reports of a test, which are not among its files."""
    for provider in target.providers:
        if isinstance(provider, TestAction):
            yield from provider.reports
