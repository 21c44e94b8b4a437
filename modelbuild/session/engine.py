"""The objects that execute actions: store, sources, keys, executor."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import modelbuild
from modelbuild.actions import Action
from modelbuild.analysis.analyze import Analyzer
from modelbuild.code.step_sources import StepCode
from modelbuild.devices.executor import DeviceExecutor
from modelbuild.events import Notice, Reporter
from modelbuild.execution.executor import Executor
from modelbuild.execution.fork_server_client import ForkServer
from modelbuild.execution.local_executor import LocalExecutor
from modelbuild.execution.resolver import Resolver
from modelbuild.execution.scheduling.longest_paths import Estimates
from modelbuild.execution.scheduling.scheduler import Scheduler, SchedulingPolicy
from modelbuild.execution.time_limit import TimeLimit
from modelbuild.history.estimates import expected_seconds
from modelbuild.labels import Label
from modelbuild.loading.loader import Loader
from modelbuild.remote.open import executing, shared
from modelbuild.session.failure_files import FailureFiles
from modelbuild.session.request import Means
from modelbuild.session.source_files import Sources
from modelbuild.store.interface import Store
from modelbuild.store.local import open_store
from modelbuild.store.lock import KeyLocks
from modelbuild.workspace.workspace import OUTPUT_FOLDER, Workspace


@dataclass(frozen=True, slots=True)
class Engine:
    """The objects that execute actions. `sources` contains the stamps of workspace files that were read."""

    means: Means
    reporter: Reporter
    store: Store
    sources: Sources
    code: StepCode
    resolver: Resolver
    executor: Executor
    runs_here: Callable[[Action], bool]
    estimates: Estimates
    running: KeyLocks

    def scheduler(self, analyzer: Analyzer, executor: Executor, afresh: Collection[str]) -> Scheduler:
        """Return a scheduler for an analyzer's graph. The actions `afresh` run although the cache contains their
        results."""
        means = self.means
        policy = SchedulingPolicy(
            means.jobs, means.remote.jobs, self.runs_here, means.keep_going, means.remote.lookups_at_once, afresh,
            self.estimates,
        )  # fmt: skip
        return Scheduler(
            analyzer.graph, self.store, self.resolver, self.sources.entry, executor, self.reporter, policy, self.running
        )


def time_limit(loader: Loader, seconds: float | None, action: Action) -> TimeLimit | None:
    """Return the time limit of an action: its target's limit, or else the build's, `seconds`."""
    label = action.owner.label
    own = loader.target(Label.parse(label)).action_timeout
    if own is not None:
        return TimeLimit(own, f"action_timeout of {label}")
    return TimeLimit(seconds, "--action-timeout") if seconds is not None else None


@contextmanager
def open_engine(
    workspace: Workspace,
    means: Means,
    analyzer: Analyzer,
    reporter: Reporter,
    spare: ForkServer | None = None,
) -> Iterator[Engine]:
    """Yield an engine for the actions of an analyzer. `spare`: see LocalExecutor. All started processes end with it.

    Raises as open_store(), shared() and executing() do, and EnvironmentProblem for a toolchain that was evicted since
    it was made.
    """
    config, packages, toolchains = workspace.config, analyzer.rules.packages, analyzer.toolchains
    reporter = FailureFiles(reporter, workspace.root / OUTPUT_FOLDER)
    with open_store(config.cache_dir, config.cache_size) as local, shared(local, means.remote, reporter) as store:
        for python in toolchains.made():
            from modelbuild.toolchain.make import check_there  # builds without toolchains do not need it

            check_there(python)
        roots = {"modelbuild": Path(modelbuild.__file__).parent, **packages}
        code = StepCode(roots)
        sources = Sources(workspace.root, local, means.verify_sources, lambda text: reporter.emit(Notice(text)))
        here = LocalExecutor(workspace.root, store, local.scratch, packages, means.sandbox_debug, reporter, spare)
        inner, runs_here = executing(here, means.remote, store, local, code, reporter)
        runners = [(str(label), runner) for label, runner in means.runners]
        executor = DeviceExecutor(inner, store, workspace.root, runners, reporter)
        models, pythons = config.remote.gpus, toolchains.python
        limit = partial(time_limit, analyzer.loader, means.action_timeout)
        find = executor.identity
        resolver = Resolver(code, workspace.root, store.read_bytes, sources, models, pythons, find, limit)
        try:
            estimates = partial(expected_seconds, config.cache_dir)
            yield Engine(means, reporter, store, sources, code, resolver, executor, runs_here, estimates, local.running)
        finally:
            executor.close()
