"""A build as a Chrome trace, for Perfetto and chrome://tracing.

One track for the command's phases, one for the starts of workers, one per worker with actions and the parts of their
work, one for results found in a cache, some for lookups and stores, and one for the critical path: the chain of
dependent actions that is a lower bound of the build's duration, after the start of the worker that its first action
waited for.
"""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from modelbuild.events import (
    ActionFinished,
    ActionProgress,
    ActionStarted,
    BuildFinished,
    BuildStarted,
    CacheUsed,
    Event,
    Loaded,
    TestFinished,
    WorkerReady,
)

_PHASES, _CACHE, _CRITICAL, _STARTS, _WORKERS, _LANES = 0, 1, 2, 3, 10, 10_000


_Timed = TypeVar("_Timed", CacheUsed, WorkerReady)


class Trace:
    """Collects events; close() writes the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._loading: float | None = self._began  # start of the phase in which no action runs; None while actions do
        self._running = self._began
        self._phases: list[dict[str, Any]] = []
        self._actions: dict[str, ActionFinished] = {}
        self._starts: dict[str, float] = {}
        self._ready: list[WorkerReady] = []
        self._parts: dict[str, list[ActionProgress]] = {}
        self._next: dict[str, float] = {}
        self._waits: dict[str, float] = {}  # the last time at which an action began or ended to wait for a worker
        self._accesses: list[CacheUsed] = []
        self._events: list[dict[str, Any]] = []
        self._written = False

    def emit(self, event: Event) -> None:
        with self._lock:
            match event:
                case Loaded() if self._loading is not None:
                    self._phase("loading", self._loading, event.at)
                    self._loading = event.at
                case BuildStarted():
                    if self._loading is not None:
                        self._phase("analysis", self._loading, event.at)
                    self._loading, self._running = None, event.at
                case CacheUsed():
                    self._accesses.append(event)
                case WorkerReady():
                    self._ready.append(event)
                case BuildFinished():
                    self._phase("execution", self._running, event.at)
                    self._loading = event.at
                case ActionStarted():
                    self._starts[event.id] = event.at
                case ActionProgress(waiting=True):
                    self._waits[event.id] = event.at
                case ActionProgress():
                    self._parts.setdefault(event.id, []).append(event)
                case ActionFinished():
                    self._actions[event.id] = event
                case TestFinished():
                    self._events.append(self._instant(f"{event.label} {event.status}", event.at, _PHASES))

    def close(self) -> None:
        with self._lock:
            if self._written:
                return
            self._written = True
            with suppress(OSError):
                self._path.write_text(json.dumps({"displayTimeUnit": "ms", "traceEvents": self._all()}) + "\n")

    def _all(self) -> list[dict[str, Any]]:
        if self._loading is None:  # the build was aborted
            self._phase("execution", self._running, time.monotonic())
        elif not self._phases:
            self._phase("loading", self._loading, time.monotonic())
        found = list(self._phases)
        self._find_next()
        workers = set()
        for event in self._actions.values():
            if event.status == "cached":
                found.append(self._instant(f"{event.mnemonic} {event.owner}", event.at, _CACHE))
                continue
            workers.add(event.worker)
            found.append(self._action(event, _WORKERS + event.worker))
            found += self._inside(event)
        critical = critical_path(self._actions)
        found += [self._action(event, _CRITICAL) for event in critical]
        found += [
            self._start(event, _CRITICAL, self._began_at(critical[0]))
            for event in self._ready
            if critical and self._waited(critical[0], event)
        ]
        names = {_PHASES: "phases", _CACHE: "found in a cache", _CRITICAL: "critical path"}
        for lane, starts in enumerate(_lanes(self._ready)):
            names[_STARTS + lane] = f"starts of workers {lane}"
            found += [self._start(each, _STARTS + lane, each.at) for each in starts]
        names |= {_WORKERS + worker: f"worker {worker}" for worker in sorted(workers)}
        for lane, accesses in enumerate(_lanes(self._accesses)):
            names[_LANES + lane] = f"cache {lane}"
            found += [
                self._slice(f"{each.kind} {each.id}", each.at - each.seconds, each.at, _LANES + lane, {})
                for each in accesses
            ]
        return [_named(track, name) for track, name in names.items()] + found + self._events

    def _phase(self, name: str, start: float, end: float) -> None:
        self._phases.append(self._slice(name, start, end, _PHASES, {}))

    def _action(self, event: ActionFinished, track: int) -> dict[str, Any]:
        facts: dict[str, Any] = {name: getattr(event, name) for name in ("id", "status", "key", "description")}
        if event.place is not None:
            facts["place"] = dataclasses.asdict(event.place)
        start = self._began_at(event)
        return self._slice(f"{event.mnemonic} {event.owner}", start, start + event.seconds, track, facts)

    def _inside(self, event: ActionFinished) -> list[dict[str, Any]]:
        """Return the parts of an action's work, each until the next begins."""
        parts = self._parts.get(event.id, [])
        start = self._began_at(event)
        end = start + event.seconds
        times = [min(max(each.at, start), end) for each in parts]
        spans = pairwise([*times, end])
        track = _WORKERS + event.worker
        return [self._slice(each.part, *span, track, {}) for each, span in zip(parts, spans, strict=True)]

    def _began_at(self, event: ActionFinished) -> float:
        """Return the time at which a worker began an action."""
        # The event comes late: the worker may have started its next action by then.
        start = self._starts.get(event.id, event.at - event.seconds)
        # The end of a wait may come late too.
        latest = min(event.at, self._next.get(event.id, event.at)) - event.seconds
        return max(start, min(self._waits.get(event.id, start), latest))

    def _find_next(self) -> None:
        """Find the time at which the worker of each action began its next one."""
        ran = [event for event in self._actions.values() if event.status != "cached" and event.id in self._starts]
        ran.sort(key=lambda event: (event.worker, self._starts[event.id]))
        pairs = ((one, other) for one, other in pairwise(ran) if one.worker == other.worker)
        self._next = {one.id: self._starts[other.id] for one, other in pairs}

    def _waited(self, action: ActionFinished, worker: WorkerReady) -> bool:
        """Return whether an action was given to a worker that was still starting."""
        return self._starts.get(action.id, action.at) < worker.at <= self._waits.get(action.id, 0)

    def _start(self, event: WorkerReady, track: int, end: float) -> dict[str, Any]:
        """Return the slice of a worker's start, which ends at `end` at the latest."""
        modules = f" with {', '.join(event.modules)}" if event.modules else ""
        name = f"start a worker{modules}"
        return self._slice(name, event.at - event.seconds, min(event.at, end), track, {})

    def _slice(self, name: str, start: float, end: float, track: int, facts: Mapping[str, Any]) -> dict[str, Any]:
        duration = max(0, round((end - start) * 1e6))
        return {"name": name, "ph": "X", "pid": 1, "tid": track, "ts": self._us(start), "dur": duration, "args": facts}

    def _instant(self, name: str, at: float, track: int) -> dict[str, Any]:
        return {"name": name, "ph": "i", "s": "t", "pid": 1, "tid": track, "ts": self._us(at)}

    def _us(self, at: float) -> int:
        return max(0, round((at - self._began) * 1e6))


def critical_path(actions: Mapping[str, ActionFinished]) -> list[ActionFinished]:
    """Return the chain of actions that ran, each an input of the next, with the most seconds."""
    longest: dict[str, tuple[float, str]] = {}
    for name, event in sorted(actions.items(), key=lambda item: item[1].at):
        before = [(longest[maker][0], maker) for maker in event.makers if maker in longest]
        most, maker = max(before, default=(0.0, ""))
        longest[name] = (most + event.seconds, maker)
    path = []
    name = max(longest, key=lambda each: longest[each][0], default="")
    while name:
        path.append(actions[name])
        name = longest[name][1]
    return [event for event in reversed(path) if event.status != "cached"]


def _lanes(events: Iterable[_Timed]) -> list[list[_Timed]]:
    """Return the fewest rows in which overlapping events are in different ones."""
    lanes: list[list[_Timed]] = []
    for each in sorted(events, key=lambda event: event.at - event.seconds):
        free = (lane for lane in lanes if lane[-1].at <= each.at - each.seconds)
        lane = next(free, None)
        if lane is None:
            lanes.append([each])
        else:
            lane.append(each)
    return lanes


def _named(track: int, name: str) -> dict[str, Any]:
    return {"name": "thread_name", "ph": "M", "pid": 1, "tid": track, "args": {"name": name}}
