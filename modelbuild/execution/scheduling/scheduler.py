"""The suspending scheduler: run required actions, program by program, while the graph grows.

The terms are those of "Build systems a la carte" (Mokhov, Mitchell, Peyton Jones 2018): suspending scheduler,
constructive traces. An action with unchanged inputs has an unchanged key, so a rebuild stops there (early cutoff).
"""

from __future__ import annotations

import heapq
import queue
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, TypeVar

from modelbuild.action_graph import ActionGraph, reads
from modelbuild.actions import (
    Action,
    ActionResult,
    Artifact,
    DerivedArtifact,
    Digest,
    ErrorText,
    Expansion,
    FileEntry,
    Material,
    Place,
    SourceArtifact,
    StagedInput,
)
from modelbuild.api.rule_errors import describe_callback_error
from modelbuild.errors import BuildError, EnvironmentProblem, LoadingError, ModelbuildError
from modelbuild.events import ActionFinished, CacheUsed, GraphGrew, Notice
from modelbuild.execution.executor import Outcome, Request
from modelbuild.execution.keys import Keys, key_of
from modelbuild.execution.scheduling.action_runner import Running
from modelbuild.execution.scheduling.artifact_values import Values
from modelbuild.execution.scheduling.longest_paths import Estimates
from modelbuild.execution.scheduling.lost_blobs import Found, Remaker
from modelbuild.execution.scheduling.start_order import StartOrder
from modelbuild.lines import one_line
from modelbuild.store.interface import MissingBlob, Store
from modelbuild.workspace.workspace import BUILT_IN

T = TypeVar("T")

# A lookup reads and hashes; two threads keep the disk busy while actions run.
LOOKUPS = 2


@dataclass(frozen=True, slots=True)
class _Prepared:
    """An action with its key and, if the cache has it, its result."""

    request: Request
    key: str
    material: Material
    result: ActionResult | None


@dataclass(frozen=True, slots=True)
class CacheLookups:
    """The number of concurrent cache lookups, and the ids of actions that run without one."""

    at_once: int = LOOKUPS
    afresh: Collection[str] = ()


@dataclass(slots=True)
class Report:
    """The outcome of each action, by id: its key and key material, its result and status, its place if it ran remotely,
    and for actions that failed or could not run, the id of the failed action at fault."""

    keys: dict[str, str] = field(default_factory=dict)
    materials: dict[str, Material] = field(default_factory=dict)
    results: dict[str, ActionResult] = field(default_factory=dict)
    statuses: dict[str, Literal["ran", "cached"]] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


class Scheduler:
    """Builds artifacts. `build` may be called again for more artifacts."""

    def __init__(
        self,
        graph: ActionGraph,
        store: Store,
        running: Running,
        keys: Keys,
        values: Values,
        lookups: CacheLookups = CacheLookups(),
        estimates: Estimates = lambda names: {},
    ) -> None:
        self.graph = graph
        self._store = store
        self._running = running
        self._keys = keys
        self._reporter = running.reporter
        self._cache = lookups
        self._remaker = Remaker(store, running.run_again)
        self._waiting: dict[str, int] = {}
        self._actions = 0
        self._estimates = estimates
        self._order: StartOrder | None = None  # set when an action first waits for a free job
        self._ready: list[tuple[tuple[int, float], int, Action, _Prepared]] = []
        self._arrived = 0
        self._begun: set[str] = set()
        self._awaited: set[str] = set()  # lookups of nodes that the last finished action made ready
        self._settling = False
        self._free = running.jobs
        self._same_key: dict[str, list[tuple[Action, _Prepared]]] = {}
        self._done: set[str] = set()
        self._expanded: set[str] = set()
        self._events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lookups: ThreadPoolExecutor
        self._runs: ThreadPoolExecutor
        self._in_flight = 0
        self.values = values
        self.report = Report()

    def build(self, wanted: Iterable[Artifact]) -> Report:
        """Build artifacts. Failures of actions are in the report; Ctrl-C and errors of the machine are raised after
        all processes were ended."""
        needed = self.graph.needed_for(wanted, self._waiting)
        grows = bool(self._waiting)
        self._lookups = ThreadPoolExecutor(self._cache.at_once, "lookup")
        self._runs = ThreadPoolExecutor(self._running.jobs, "run")
        try:
            self._need(needed, grows)
            _ = self.graph.dag  # imports networkx while the first actions are looked up and begin
            while self._in_flight:
                self._events.get()()
        except BaseException:
            self._running.close()
            raise
        finally:
            self._lookups.shutdown(cancel_futures=True)
            self._runs.shutdown(cancel_futures=True)
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
        return self._remaker.keeping(work)

    # -- the graph ---------------------------------------------------------------------------------------------------

    def _need(self, new: set[str], grows: bool = True) -> None:
        """Add nodes, and start those whose dependencies are done."""
        for node in new:
            self._waiting[node] = 0
        for node in new:
            self._wait(node, self.graph.makers(node))
        if self._order is not None:
            self._order.add(new)
        actions = self.actions(new)
        self._actions += len(actions)
        if grows:
            self._reporter.emit(GraphGrew(self._actions, tuple(actions)))
        for node in sorted(new):
            if self._waiting[node] == 0:
                self._start(node)

    def _wait(self, node: str, on: set[str]) -> None:
        missing = on - self._done
        self._waiting[node] = len(missing)
        failed = [maker for maker in missing if maker in self.report.failed]
        if failed:
            self._fail(node, self.report.failed[failed[0]])

    def _start(self, node: str) -> None:
        if self.report.failed and (not self._running.keep_going or node in self.report.failed):
            return
        item = self.graph.nodes[node]
        if self._settling and node not in self._expanded:
            self._awaited.add(node)
        if isinstance(item, Action):
            self._submit(
                self._lookups,
                lambda: self._prepare(item),
                lambda found: self._settle(node, partial(self._prepared, item, found)),
            )
        elif node in self._expanded:
            self._finish(node)
        else:
            self._submit(
                self._lookups,
                lambda: self._read(item),
                lambda data: self._settle(node, partial(self._expand, item, data)),
            )

    def _finish(self, node: str) -> None:
        self._done.add(node)
        for reader in self._readers(node):
            self._waiting[reader] -= 1
            if self._waiting[reader] == 0:
                self._start(reader)

    def _readers(self, node: str) -> list[str]:
        """Return the required nodes that depend on this one."""
        return [reader for reader in self.graph.dag.succ[node] if reader in self._waiting]

    def _fail(self, node: str, culprit: str) -> None:
        pending = [node]
        while pending:
            failed = pending.pop()
            if failed not in self.report.failed:
                self.report.failed[failed] = culprit
                pending += self._readers(failed)

    def _submit(self, pool: ThreadPoolExecutor, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        self._in_flight += 1

        def ended(future: Future[Any]) -> None:
            def settle() -> None:
                self._in_flight -= 1
                then(future.result())

            if not future.cancelled():
                self._events.put(settle)

        pool.submit(self._remaker.keeping, work).add_done_callback(ended)

    def _settle(self, node: str, work: Callable[[], None], ran: bool = False) -> None:
        """Do the work after a node's lookup or run, then start actions. The nodes that a run makes ready are awaited,
        and those that become ready because an awaited one is in the cache, or is an expansion."""
        self._settling = ran or node in self._awaited
        self._awaited.discard(node)
        work()
        self._settling = False
        self._run_next()

    # -- expansions --------------------------------------------------------------------------------------------------

    def _read(self, expansion: Expansion) -> list[bytes] | BuildError:
        found = []
        for artifact in expansion.reads:
            try:
                value = self.values.value(artifact)
            except BuildError as error:
                return error
            if not isinstance(value, FileEntry):
                return BuildError(f"{expansion.id} reads '{artifact.output}', which is not a file; expected a file")
            found.append(self._store.read_bytes(value.digest))
        return found

    def _expand(self, expansion: Expansion, data: list[bytes] | BuildError) -> None:
        from modelbuild.api.context import Expander

        try:
            if isinstance(data, BuildError):
                raise data
            made = expansion.then(Expander(self.graph, expansion.owner, expansion.room), *data)
            if set(made) != set(expansion.promises):
                raise ValueError(f"it returned {sorted(made)}; expected {sorted(expansion.promises)}, as promised")
            self._check(made.values())
            makers = self.graph.keep_promises(expansion.id, made.values(), self._done)
        except Exception as error:
            if not isinstance(error, ModelbuildError) and expansion.package == BUILT_IN:
                raise
            problem = str(error) if isinstance(error, ModelbuildError) else describe_callback_error(error)
            self._failed(ActionFinished(expansion.id, expansion.owner, "expand", "expand", "failed", 0.0, problem))
            return
        self.values.promised(expansion.id, made)
        self._expanded.add(expansion.id)
        self._wait(expansion.id, makers)
        self._need(self.graph.needed_for(made.values(), self._waiting))
        if self._waiting[expansion.id] == 0:
            self._finish(expansion.id)

    def _check(self, artifacts: Iterable[Artifact]) -> None:
        try:
            for artifact in artifacts:
                self.graph.check(artifact)
        except ValueError as error:
            raise BuildError(str(error)) from None

    def actions(self, ids: Iterable[str]) -> list[str]:
        """Return the ids of actions."""
        return [i for i in ids if isinstance(self.graph.nodes[i], Action)]

    # -- actions -----------------------------------------------------------------------------------------------------

    def _prepare(self, action: Action) -> _Prepared | BuildError:
        try:
            request = self._keys.request(action, tuple(self._stage(action)))
            material = self._keys.material(request)
        except BuildError as error:
            return error
        except (LoadingError, EnvironmentProblem) as error:  # source that is not Python; a missing package
            if not self._running.keep_going:
                raise
            return BuildError(str(error))
        key = key_of(material)
        began = time.monotonic()
        result = None if action.id in self._cache.afresh else self._store.get_action(key, material)
        self._reporter.emit(CacheUsed(action.id, "lookup", time.monotonic() - began))
        if result is not None:
            self._remaker.know(Found(request, key, material, result))
        return _Prepared(request, key, material, result)

    def _stage(self, action: Action) -> Iterable[StagedInput]:
        for item in action.inputs:
            artifact = self.values.resolve(item.artifact)
            if isinstance(artifact, SourceArtifact):
                path, entry = self.values.source(artifact.path)
                yield StagedInput(item.name, item.path, path, entry)
            else:
                yield StagedInput(item.name, item.path, None, self.values.value(artifact))

    def _prepared(self, action: Action, found: _Prepared | BuildError) -> None:
        if isinstance(found, BuildError):
            self._failed(ActionFinished(*_named(action), "failed", 0.0, str(found)))
        else:
            self._take(action, found)

    def _take(self, action: Action, found: _Prepared) -> None:
        self.report.keys[action.id] = found.key
        self.report.materials[action.id] = found.material
        if found.result is not None:
            self._succeeded(action, found, found.result, "cached")
        elif found.key in self._same_key:
            self._same_key[found.key].append((action, found))
        else:
            self._same_key[found.key] = []
            self._run_when_free(action, found)

    def _run_when_free(self, action: Action, found: _Prepared) -> None:
        if self._free == 0 and self._order is None:
            nodes = self._waiting.keys() - self._done
            self._order = StartOrder(self.graph.dag, self._seconds, nodes, self._begun)
        self._arrived += 1
        key = self._order[action.id] if self._order is not None else (0, 0.0)
        heapq.heappush(self._ready, (key, self._arrived, action, found))

    def _seconds(self, names: Iterable[str]) -> Mapping[str, float]:
        return self._estimates(self.actions(names))

    def _run_next(self) -> None:
        """Start the first actions in order, one per free job. Wait for lookups of nodes that the last finished action
        made ready; otherwise each action of a program would wait for an unrelated one."""
        while self._free and self._ready:
            key = self._ready[0][0]
            if self._order is not None and any(self._order[name] < key for name in self._awaited):
                return
            _, _, action, found = heapq.heappop(self._ready)
            self._free -= 1
            self._begun.add(action.id)
            self._submit(self._runs, partial(self._run, found), partial(self._ran, action, found))

    def _run(self, found: _Prepared) -> tuple[Outcome, int] | None:
        ended = self._running.run(found.request)
        if ended is not None and ended[0].place is None and (problem := self._keys.outdated(found.request)):
            ended = (replace(ended[0], result=None, problem=problem), ended[1])
        if ended is not None and ended[0].result is not None and ended[0].keep:
            began = time.monotonic()
            self._store.put_action(found.key, ended[0].result, found.material)
            self._reporter.emit(CacheUsed(found.request.action.id, "store", time.monotonic() - began))
            self._remaker.know(Found(found.request, found.key, found.material, ended[0].result))
        return ended

    def _error_text(self, error_text: ErrorText | None, problem: str) -> str:
        """Return the error message for a problem; unchanged if the files for the text were not built."""
        if error_text is None:
            return problem
        made = [self.values.value(artifact) for artifact in error_text.reads if self.values.has(artifact)]
        files = [value for value in made if isinstance(value, FileEntry)]
        if len(files) != len(error_text.reads):
            return problem
        format_error = error_text.format
        return self._remaker.keeping(lambda: format_error(problem, *(self._store.read_bytes(f.digest) for f in files)))

    def _ran(self, action: Action, found: _Prepared, ended: tuple[Outcome, int] | None) -> None:
        self._free += 1
        self._settle(action.id, partial(self._take_outcome, action, found, ended), ran=True)

    def _take_outcome(self, action: Action, found: _Prepared, ended: tuple[Outcome, int] | None) -> None:
        twins = self._same_key.pop(found.key)
        if ended is None:
            return
        outcome, slot = ended
        if outcome.place is not None:
            self.report.places[action.id] = outcome.place
        if outcome.result is not None:
            self._succeeded(action, found, outcome.result, "ran", slot)
            for twin, prepared in twins:
                self._succeeded(twin, prepared, outcome.result, "cached")
            return
        for failed in (action, *(twin for twin, _ in twins)):
            problem = self._error_text(failed.error_text, outcome.problem)
            texts = self._text(outcome.stdout), self._text(outcome.stderr)
            self._failed(
                ActionFinished(
                    *_named(failed), "failed", 0.0, problem, *texts, found.key, slot, makers=self._makers(failed)
                )
            )

    def _succeeded(self, action: Action, found: _Prepared, result: ActionResult, status: Any, slot: int = 0) -> None:
        self.values.made(action.id, result)
        self.report.results[action.id] = result
        self.report.statuses[action.id] = status
        self._reporter.emit(
            ActionFinished(
                *_named(action),
                status,
                seconds=result.seconds if status == "ran" else 0.0,
                key=found.key,
                worker=slot,
                makers=self._makers(action),
                place=self.report.places.get(action.id),
                saved=result.seconds if status == "cached" else 0.0,
                fetched=status == "cached" and found.key in self._store.fetched,
            )
        )
        for note in self._notes(action, result):
            text = self._error_text(action.error_text, note)
            self._reporter.emit(Notice(one_line(f"{action.owner}: {text}")))
        self._finish(action.id)

    def _notes(self, action: Action, result: ActionResult) -> list[str]:
        """Return the lines of the action's notes, which are usually none."""
        value = dict(result.outputs).get(action.notes) if action.notes else None
        if not isinstance(value, FileEntry) or not value.digest.size:
            return []
        return self._text(value.digest).splitlines()

    def _makers(self, action: Action) -> tuple[str, ...]:
        """Return the actions that made an action's inputs."""
        made = (self.values.resolve(artifact) for artifact in reads(action))
        return tuple(sorted({artifact.action for artifact in made if isinstance(artifact, DerivedArtifact)}))

    def _failed(self, event: ActionFinished) -> None:
        self._fail(event.id, event.id)
        self._reporter.emit(event)

    def _text(self, digest: Digest | None) -> str:
        try:
            return self._store.read_bytes(digest).decode(errors="replace") if digest else ""
        except MissingBlob:  # removed by another program
            return ""


def _named(action: Action) -> tuple[str, str, str, str]:
    """Return the first members of an event about an action."""
    return action.id, action.owner, action.mnemonic, action.description or action.mnemonic
