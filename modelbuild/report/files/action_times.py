"""The times of a build's actions, from the build's events; the critical path, and the starts of workers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import TypeVar

from modelbuild.events import ActionFinished, ActionProgress, ActionStarted, CacheUsed, Event, WorkerReady

_Timed = TypeVar("_Timed", CacheUsed, WorkerReady)


class ActionTimes:
    """Collects events. Times come from the events."""

    def __init__(self) -> None:
        self.actions: dict[str, ActionFinished] = {}
        self.ready: list[WorkerReady] = []
        self._starts: dict[str, float] = {}
        self._waits: dict[str, float] = {}  # the last time at which an action began or ended to wait for a worker
        self._next: dict[str, float] | None = None

    def add(self, event: Event) -> None:
        match event:
            case WorkerReady():
                self.ready.append(event)
            case ActionStarted():
                self._starts[event.id] = event.at
            case ActionProgress(waiting=True):
                self._waits[event.id] = event.at
            case ActionFinished():
                self.actions[event.id] = event
                self._next = None

    def span(self, event: ActionFinished) -> tuple[float, float]:
        """Return the times at which a worker began and ended an action that ran."""
        # The event comes late: the worker may have started its next action by then.
        start = self._starts.get(event.id, event.at - event.seconds)
        # The end of a wait may also come late.
        latest = min(event.at, self._nexts().get(event.id, event.at)) - event.seconds
        began = max(start, min(self._waits.get(event.id, start), latest))
        return began, event.at if event.status == "failed" else began + event.seconds

    def critical(self) -> list[tuple[ActionFinished | WorkerReady, float, float]]:
        """Return the critical path with its times: actions, and before each the start of the worker that it waited for
        after the end of the action before."""
        path: list[tuple[ActionFinished | WorkerReady, float, float]] = []
        end = float("-inf")
        for action in critical_path(self.actions):
            began, ended = self.span(action)
            awaited = [ready for ready in self.ready if self._waited(action, ready)]
            if awaited:  # other workers may have started meanwhile: the last worker ended the wait
                ready = max(awaited, key=lambda each: each.at)
                path.append((ready, min(began, max(end, ready.at - ready.seconds)), min(ready.at, began)))
            path.append((action, began, ended))
            end = ended
        return path

    def _nexts(self) -> dict[str, float]:
        """Return the time at which the worker of each action began its next action."""
        if self._next is None:
            ran = [event for event in self.actions.values() if event.status != "cached" and event.id in self._starts]
            ran.sort(key=lambda event: (event.worker, self._starts[event.id]))
            pairs = ((one, other) for one, other in pairwise(ran) if one.worker == other.worker)
            self._next = {one.id: self._starts[other.id] for one, other in pairs}
        return self._next

    def _waited(self, action: ActionFinished, worker: WorkerReady) -> bool:
        """Return whether an action was given to a worker that was still starting."""
        return self._starts.get(action.id, action.at) < worker.at <= self._waits.get(action.id, 0)


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


def lanes(events: Iterable[_Timed]) -> list[list[_Timed]]:
    """Return the events in as few rows as possible, so that no events in a row overlap."""
    found: list[list[_Timed]] = []
    for each in sorted(events, key=lambda event: event.at - event.seconds):
        free = (lane for lane in found if lane[-1].at <= each.at - each.seconds)
        lane = next(free, None)
        if lane is None:
            found.append([each])
        else:
            lane.append(each)
    return found
