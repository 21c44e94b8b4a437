"""A build as a Chrome trace, for Perfetto and chrome://tracing.

The tracks are: the command's phases, the starts of workers, each worker with its actions and the parts of their work,
results found in a cache, lookups and stores, and the critical path. The critical path is the chain of dependent actions
that is a lower bound of the build's duration, with the starts of workers that its actions waited for.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from modelbuild.events import (
    ActionFinished,
    ActionProgress,
    BuildFinished,
    BuildStarted,
    CacheUsed,
    Event,
    Loaded,
    TestFinished,
    WorkerReady,
)
from modelbuild.report.files.action_times import ActionTimes, lanes
from modelbuild.user_files import check_file, write_file

_PHASES, _CACHE, _CRITICAL, _STARTS, _WORKERS, _LANES = 0, 1, 2, 3, 10, 10_000


class Trace:
    """Collects events; close() writes the file. Both raise as write_file does."""

    def __init__(self, path: Path) -> None:
        check_file(path)
        self._path = path
        self._began = time.monotonic()
        self._loading: float | None = self._began  # start of the phase in which no action runs; None while actions do
        self._running = self._began
        self._phases: list[dict[str, Any]] = []
        self._times = ActionTimes()
        self._parts: dict[str, list[ActionProgress]] = {}
        self._accesses: list[CacheUsed] = []
        self._events: list[dict[str, Any]] = []

    def emit(self, event: Event) -> None:
        self._times.add(event)
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
            case BuildFinished():
                self._phase("execution", self._running, event.at)
                self._loading = event.at
            case ActionProgress(waiting=False):
                self._parts.setdefault(event.id, []).append(event)
            case TestFinished():
                self._events.append(self._instant(f"{event.label} {event.status}", event.at, _PHASES))

    def close(self) -> None:
        write_file(self._path, json.dumps({"displayTimeUnit": "ms", "traceEvents": self._all()}) + "\n")

    def _all(self) -> list[dict[str, Any]]:
        if self._loading is None:  # the build was aborted
            self._phase("execution", self._running, time.monotonic())
        elif not self._phases:
            self._phase("loading", self._loading, time.monotonic())
        found = list(self._phases)
        workers = set()
        for event in self._times.actions.values():
            if event.status == "cached":
                found.append(self._instant(f"{event.mnemonic} {event.owner}", event.at, _CACHE))
                continue
            workers.add(event.worker)
            found.append(self._action(event, _WORKERS + event.worker))
            found += self._inside(event)
        for each, start, end in self._times.critical():
            if isinstance(each, ActionFinished):
                found.append(self._action(each, _CRITICAL))
            else:
                found.append(self._start(each, _CRITICAL, start, end))
        names = {_PHASES: "phases", _CACHE: "found in a cache", _CRITICAL: "critical path"}
        for lane, starts in enumerate(lanes(self._times.ready)):
            names[_STARTS + lane] = f"starts of workers {lane}"
            found += [self._start(each, _STARTS + lane, each.at - each.seconds, each.at) for each in starts]
        names |= {_WORKERS + worker: f"worker {worker}" for worker in sorted(workers)}
        for lane, accesses in enumerate(lanes(self._accesses)):
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
        return self._slice(f"{event.mnemonic} {event.owner}", *self._times.span(event), track, facts)

    def _inside(self, event: ActionFinished) -> list[dict[str, Any]]:
        """Return the parts of an action's work, each until the next begins."""
        parts = self._parts.get(event.id, [])
        start, end = self._times.span(event)
        times = [min(max(each.at, start), end) for each in parts]
        spans = pairwise([*times, end])
        track = _WORKERS + event.worker
        return [self._slice(each.part, *span, track, {}) for each, span in zip(parts, spans, strict=True)]

    def _start(self, event: WorkerReady, track: int, start: float, end: float) -> dict[str, Any]:
        """Return the slice of a worker's start."""
        modules = f" with {', '.join(event.modules)}" if event.modules else ""
        return self._slice(f"start a worker{modules}", start, end, track, {})

    def _slice(self, name: str, start: float, end: float, track: int, facts: Mapping[str, Any]) -> dict[str, Any]:
        duration = max(0, round((end - start) * 1e6))
        return {"name": name, "ph": "X", "pid": 1, "tid": track, "ts": self._us(start), "dur": duration, "args": facts}

    def _instant(self, name: str, at: float, track: int) -> dict[str, Any]:
        return {"name": name, "ph": "i", "s": "t", "pid": 1, "tid": track, "ts": self._us(at)}

    def _us(self, at: float) -> int:
        return max(0, round((at - self._began) * 1e6))


def _named(track: int, name: str) -> dict[str, Any]:
    return {"name": "thread_name", "ph": "M", "pid": 1, "tid": track, "args": {"name": name}}
