"""The suspending scheduler: one coroutine per required action or expansion, while the graph grows.

The terms come from "Build systems a la carte" (Mokhov, Mitchell, Peyton Jones 2018): suspending scheduler, constructive
traces. An action with unchanged inputs has an unchanged key, so a rebuild stops there (early cutoff).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from modelbuild.action_graph import ActionGraph
from modelbuild.actions import Action, Artifact, DerivedArtifact, Expansion, FileEntry
from modelbuild.analysis.undeclared_reads import refused_reads
from modelbuild.api.rule_errors import describe_callback_error
from modelbuild.errors import BuildError, EnvironmentProblem, LoadingError, ModelbuildError
from modelbuild.events import ActionProgress, ActionStarted, CacheUsed, GraphGrew, Reporter
from modelbuild.execution.executor import ActionRequest, Executor, Outcome, RunHere
from modelbuild.execution.keys import key_of, material_of
from modelbuild.execution.resolver import Resolver
from modelbuild.execution.scheduling.artifact_values import Values
from modelbuild.execution.scheduling.longest_paths import Estimates
from modelbuild.execution.scheduling.loop import Loop, Promise
from modelbuild.execution.scheduling.lost_blobs import Keyed, Remaker
from modelbuild.execution.scheduling.report import Report, Reports, named
from modelbuild.execution.scheduling.slots import Key, Slot, Slots, machine
from modelbuild.execution.scheduling.start_order import StartOrder
from modelbuild.store.interface import Store
from modelbuild.store.lock import KeyLocks
from modelbuild.workspace.workspace import BUILT_IN

T = TypeVar("T")

# Lookups in hand for each thread that looks up.
_AHEAD = 4

# Seconds between looks at an action that another build runs, and the longest wait: that build may be stopped.
_LOOK = 0.1
_LONGEST_WAIT = 3600.0


@dataclass(frozen=True, slots=True)
class SchedulingPolicy:
    """Options for running actions.

    jobs        number of actions that run on this machine at once, and share its resources
    elsewhere   number of other actions that run at once
    runs_here   returns whether an action will run on this machine; asked again after RunHere
    keep_going  whether actions start after another action failed
    lookups     number of concurrent cache lookups; a lookup reads and hashes, so two keep the disk busy
    afresh      ids of actions that run without a lookup
    estimates   returns the seconds that actions take
    """

    jobs: int = 1
    elsewhere: int = 1
    runs_here: Callable[[Action], bool] = lambda action: True
    keep_going: bool = False
    lookups: int = 2
    afresh: Collection[str] = ()
    estimates: Estimates = lambda names: {}


class Scheduler:
    """Builds artifacts. `build` may be called again for more artifacts. `source` returns a workspace file's absolute
    path and content. `running`: held while an action runs, so that builds with one cache run it once."""

    def __init__(
        self,
        graph: ActionGraph,
        store: Store,
        resolver: Resolver,
        source: Callable[[str], tuple[Path, FileEntry]],
        executor: Executor,
        reporter: Reporter,
        policy: SchedulingPolicy = SchedulingPolicy(),
        running: KeyLocks | None = None,
    ) -> None:
        self.graph = graph
        self.values = Values(source)
        self.report = Report()
        self._store = store
        self._resolver = resolver
        self._executor = executor
        self._reporter = reporter
        self._policy = policy
        self._running = running
        self._closed = threading.Event()
        self._machine = machine(policy.jobs)
        self._reports = Reports(self.report, self.values, store, reporter, self._keeping)
        self._remaker = Remaker(store, lambda request: self._loop.spawn(self._run_again(request)))
        self._nodes: dict[str, Promise[str | None]] = {}  # see _node
        self._done: set[str] = set()
        self._runs: dict[str, Promise[tuple[Outcome, int] | None]] = {}  # by key
        self._begun: set[str] = set()
        self._order: StartOrder | None = None  # set when actions may have to wait for a slot
        self._actions = 0
        self._stopped = False
        self._loop: Loop
        self._lookup_threads: ThreadPoolExecutor
        self._lookups: Slots
        self._slots: Slots
        self._remote_slots: Slots

    def build(self, wanted: Iterable[Artifact]) -> Report:
        """Build artifacts. Failures of actions are in the report; Ctrl-C and errors of the machine are raised after
        all processes were ended."""
        needed = self.graph.needed_for(wanted, self._nodes)
        grows = bool(self._nodes)
        self._drive(lambda: self._build(needed, grows))
        return self.report

    def culprit(self, artifacts: Iterable[Artifact]) -> str | None:
        """Return the id of the failed action that prevented the build of artifacts; '' if the build stopped before
        them, None if all are built."""
        for artifact in artifacts:
            made = self.values.resolve(artifact)
            if isinstance(made, DerivedArtifact) and not self.values.has(made):
                return self.report.failed.get(made.action, next(iter(self.report.failed.values()), ""))
        return None

    def keeping(self, work: Callable[[], T]) -> T:
        """Return the result of `work`, which uses outputs after build(). Calls it again after lost blobs were made
        again."""
        return self._drive(lambda: self._keeping(work))

    def actions(self, ids: Iterable[str]) -> list[str]:
        """Return the ids of actions."""
        return [i for i in ids if isinstance(self.graph.nodes[i], Action)]

    # -- the loop ----------------------------------------------------------------------------------------------------

    def _drive(self, main: Callable[[], Coroutine[Any, None, T]]) -> T:
        policy = self._policy
        with (
            ThreadPoolExecutor(policy.jobs + policy.elsewhere, "action") as threads,
            ThreadPoolExecutor(policy.lookups, "lookup") as self._lookup_threads,
        ):
            self._loop = Loop(threads, self._grant)
            # More than threads: a thread has its next lookup before the loop has handled the last one.
            self._lookups = Slots(self._loop, _AHEAD * policy.lookups, self._key)
            self._slots = Slots(self._loop, policy.jobs, self._key, self._machine)
            self._remote_slots = Slots(self._loop, policy.elsewhere, self._key, first=policy.jobs)
            try:
                return self._loop.run(main())
            except BaseException:
                if self._loop.busy:
                    self._closed.set()
                    self._executor.close()
                raise

    def _grant(self) -> None:
        """Start the first actions. A free slot waits for the lookups of preceding actions; otherwise each action of a
        program would wait for an action of another program."""
        waiting = [slots.grant(after=self._lookups) for slots in (self._slots, self._remote_slots)]
        if any(waiting):
            self._set_order()
        self._lookups.grant()
        if self._begun and len(self._nodes) > self._actions:
            _ = self.graph.dag  # imports networkx for expansions while the first actions run

    def _set_order(self) -> None:
        if self._order is None:
            nodes = self._nodes.keys() - self._done
            self._order = StartOrder(self.graph.dag, self._seconds, nodes, self._begun)
            for slots in (self._lookups, self._slots, self._remote_slots):
                slots.sort()

    def _key(self, name: str) -> Key:
        return self._order[name] if self._order is not None else (0, 0.0)

    def _seconds(self, names: Iterable[str]) -> Mapping[str, float]:
        return self._policy.estimates(self.actions(names))

    # -- nodes -------------------------------------------------------------------------------------------------------

    async def _build(self, needed: set[str], grows: bool) -> None:
        self._need(needed, grows)
        await self._all(needed)

    def _need(self, new: set[str], grows: bool = True) -> None:
        """Begin to build nodes."""
        self._nodes |= {name: self._loop.spawn(self._node(name)) for name in sorted(new)}
        if self._order is not None:
            self._order.add(new)
        self._actions += len(self.actions(new))
        if grows:
            self._reporter.emit(GraphGrew(self._actions))

    async def _node(self, name: str) -> str | None:
        """Build a node. Returns None if it is built, or the id of the failed action that prevented it; '' if the build
        stopped before it."""
        node = self.graph.nodes[name]
        culprit = await self._all(self.graph.makers(name))
        if culprit is None:
            culprit = await (self._action(node) if isinstance(node, Action) else self._expansion(node))
        if culprit is None:
            self._done.add(name)
        elif culprit:
            self.report.failed[name] = culprit
            self._stopped |= not self._policy.keep_going
        return culprit

    async def _all(self, names: Iterable[str]) -> str | None:
        """Wait for nodes. Returns as _node()."""
        ends = [await self._nodes[name] for name in sorted(names)]
        return next(filter(None, ends), "" if self._stopped or "" in ends else None)

    async def _looked_up(self, name: str, work: Callable[[], T]) -> T | None:
        """Return the result of work that reads what a node needs; None if the build stopped before."""
        async with self._lookups.slot(name):
            if self._stopped:
                return None
            return await self._remaker.keeping(lambda: self._loop.call(work, self._lookup_threads))

    # -- expansions --------------------------------------------------------------------------------------------------

    async def _expansion(self, expansion: Expansion) -> str | None:
        try:
            data = await self._looked_up(expansion.id, partial(self._read, expansion))
            if data is None:
                return ""
            made, makers = self._expand(expansion, data)
        except BuildError as error:
            return self._reports.expansion_failed(expansion, str(error))
        self.values.promised(expansion.id, made)
        self._need(self.graph.needed_for(made.values(), self._nodes))
        if self._begun:  # an expansion makes many actions at once, and the first may be short
            self._set_order()
        return await self._all(makers)

    def _read(self, expansion: Expansion) -> list[bytes]:
        found = []
        for artifact in expansion.reads:
            value = self.values.value(artifact)
            if not isinstance(value, FileEntry):
                raise BuildError(f"{expansion.id} reads '{artifact.output}', which is not a file; expected a file")
            found.append(self._store.read_bytes(value.digest))
        return found

    def _expand(self, expansion: Expansion, data: list[bytes]) -> tuple[Mapping[str, Artifact], set[str]]:
        """Add a part of the graph. Returns the artifacts that fulfil the promises, and their makers."""
        from modelbuild.api.context import Expander

        try:
            with refused_reads():
                made = expansion.then(Expander(self.graph, expansion.owner, expansion.room, expansion.toolchain), *data)
            if set(made) != set(expansion.promises):
                raise ValueError(f"it returned {sorted(made)}; expected {sorted(expansion.promises)}, as promised")
            self._check(made.values())
            return made, self.graph.keep_promises(expansion.id, made.values(), self._done)
        except ModelbuildError as error:
            raise BuildError(str(error)) from error
        except Exception as error:
            if expansion.package == BUILT_IN:
                raise
            raise BuildError(describe_callback_error(error)) from error

    def _check(self, artifacts: Iterable[Artifact]) -> None:
        try:
            for artifact in artifacts:
                self.graph.check(artifact)
        except ValueError as error:
            raise BuildError(str(error)) from None

    # -- actions -----------------------------------------------------------------------------------------------------

    async def _action(self, action: Action) -> str | None:
        try:
            keyed = await self._looked_up(action.id, partial(self._look_up, action))
        except BuildError as error:
            return await self._reports.failed(action, Outcome(None, str(error)))
        if keyed is None:
            return ""
        self._reporter.emit(CacheUsed(action.id, "lookup", keyed.seconds))
        self.report.keys[action.id] = keyed.key
        self.report.materials[action.id] = keyed.material
        if keyed.result is not None:
            self._remaker.know(keyed, keyed.result)
            await self._reports.succeeded(action, keyed, keyed.result, "cached")
            return None
        twin = keyed.key in self._runs
        if not twin:
            self._runs[keyed.key] = self._loop.spawn(self._run(keyed))
        ended = await self._runs[keyed.key]
        if ended is None:
            return ""
        outcome, slot = ended
        if outcome.result is None:
            return await self._reports.failed(action, outcome, keyed.key, slot)
        if outcome.place is not None and not twin:
            self.report.places[action.id] = outcome.place
        await self._reports.succeeded(action, keyed, outcome.result, "cached" if twin or outcome.found else "ran", slot)
        return None

    def _look_up(self, action: Action) -> Keyed:
        try:
            request = self._resolver.resolve(action, self.values.staged(action))
        except (LoadingError, EnvironmentProblem) as error:  # source that is not Python; a missing package
            if not self._policy.keep_going:
                raise
            raise BuildError(str(error)) from error
        material = material_of(request)
        key = key_of(material)
        began = time.monotonic()
        result = None if action.id in self._policy.afresh else self._store.get_action(key, material)
        return Keyed(request, key, material, result, time.monotonic() - began)

    async def _run(self, keyed: Keyed) -> tuple[Outcome, int] | None:
        """Run an action, and store its result. Returns the outcome and the slot; None if the build stopped before."""
        action = keyed.request.action

        async def attempt() -> tuple[Outcome, int] | None:
            async with self._slot(action) as slot:
                if self._stopped:
                    return None
                self._begun.add(action.id)
                self._reporter.emit(ActionStarted(*named(action), slot))
                outcome = await self._loop.call(partial(self._execute, keyed))
                # Set before the slot is given back, so that no other action starts.
                self._stopped |= outcome.result is None and not self._policy.keep_going
                return outcome, slot

        with suppress(RunHere):
            return await self._remaker.keeping(attempt)
        return await self._remaker.keeping(attempt)

    def _slot(self, action: Action) -> Slot:
        if self._policy.runs_here(action):
            return self._slots.slot(action.id, action.resources)
        return self._remote_slots.slot(action.id)

    def _execute(self, keyed: Keyed) -> Outcome:
        if self._running is None or keyed.request.action.id in self._policy.afresh:
            return self._execute_here(keyed)
        # No cycle: a build that holds a key runs its action, and waits for no other key meanwhile.
        with self._running.held(keyed.key, self._wait(keyed.request.action.id)):
            result = self._store.get_action(keyed.key)  # another build may have stored it since the lookup
            if result is None:
                return self._execute_here(keyed)
        self._remaker.know(keyed, result)
        return Outcome(result, found=True)

    def _wait(self, action: str) -> Callable[[], bool]:
        """Return the wait for a build that runs an action."""
        until = 0.0

        def wait() -> bool:
            nonlocal until
            if not until:
                until = time.monotonic() + _LONGEST_WAIT
                self._reporter.emit(ActionProgress(action, "waits for another build", waiting=True))
            return not self._closed.wait(_LOOK) and time.monotonic() < until

        return wait

    def _execute_here(self, keyed: Keyed) -> Outcome:
        outcome = self._executor.run(keyed.request)
        if outcome.place is None and (problem := self._resolver.outdated(keyed.request)):
            return replace(outcome, result=None, problem=problem)
        if outcome.result is not None and outcome.keep:
            began = time.monotonic()
            self._store.put_action(keyed.key, outcome.result, keyed.material)
            self._reporter.emit(CacheUsed(keyed.request.action.id, "store", time.monotonic() - began))
            self._remaker.know(keyed, outcome.result)
        return outcome

    async def _run_again(self, request: ActionRequest) -> Outcome:
        """Run an action whose result turned out to be unusable."""
        with suppress(RunHere):
            async with self._slot(request.action):
                return await self._loop.call(lambda: self._executor.run(request))
        return await self._run_again(request)

    async def _keeping(self, work: Callable[[], T]) -> T:
        async def call() -> T:
            return work()

        return await self._remaker.keeping(call)
