"""Compute every action's key that is known without running anything."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import modelbuild
from modelbuild.actions import Action, Artifact
from modelbuild.analysis.analyze import Analyzer
from modelbuild.code.step_sources import StepCode
from modelbuild.events import Silent
from modelbuild.execution.executor import ActionRequest, Outcome
from modelbuild.execution.resolver import Resolver
from modelbuild.execution.scheduling.report import Report
from modelbuild.execution.scheduling.scheduler import Scheduler, SchedulingPolicy
from modelbuild.session.source_files import Sources
from modelbuild.store.interface import Store
from modelbuild.store.local import open_store


@dataclass(frozen=True, slots=True)
class DryRun:
    """`needed` are the ids of the actions that artifacts depend on, as far as known: without actions that a later
    action would add. `report` contains the known keys."""

    needed: tuple[str, ...]
    report: Report
    scheduler: Scheduler


class _Refuses:
    """An executor that runs nothing: an action that is in no cache ends with it."""

    def run(self, request: ActionRequest) -> Outcome:
        return Outcome(None, "not built")

    def close(self) -> None:
        """Do nothing."""


def dry_run(analyzer: Analyzer, wanted: Iterable[Artifact], verify_sources: bool = False) -> DryRun:
    """Look up the actions that artifacts depend on, in the local cache. Adds the actions of cached expansions to the
    analyzer's graph. `verify_sources`: see Means."""
    workspace = analyzer.loader.workspace
    with open_store(workspace.config.cache_dir) as store:
        return look_up(analyzer, wanted, store, Sources(workspace.root, store, verify_sources))


def look_up(analyzer: Analyzer, wanted: Iterable[Artifact], store: Store, sources: Sources) -> DryRun:
    """Look up the actions that artifacts depend on, in a store, as dry_run()."""
    workspace = analyzer.loader.workspace
    code = StepCode({"modelbuild": Path(modelbuild.__file__).parent, **analyzer.rules.packages})
    artifacts, pythons = list(wanted), analyzer.toolchains.python
    gpus = workspace.config.remote.gpus
    resolver = Resolver(code, workspace.root, store.read_bytes, sources, gpus, pythons)
    policy = SchedulingPolicy(keep_going=True)
    scheduler = Scheduler(analyzer.graph, store, resolver, sources.entry, _Refuses(), Silent(), policy)
    report = scheduler.build(artifacts)
    needed = analyzer.graph.needed_for(scheduler.values.resolve(artifact) for artifact in artifacts)
    needed |= analyzer.graph.needed_for(artifacts)
    actions = [i for i in needed if isinstance(analyzer.graph.nodes[i], Action)]
    return DryRun(tuple(sorted(actions)), report, scheduler)
