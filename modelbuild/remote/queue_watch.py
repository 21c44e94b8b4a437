"""Says which action waits for a worker: a server of the Remote Execution API has no word for that none will do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from modelbuild.actions import Action
from modelbuild.wording import action_line, duration

# ExecutionStage.Value: a worker has begun, or ended.
_TAKEN = (3, 4)
_QUEUED = 2


class QueueWatch:
    """Watches actions from when they are sent. Safe for many threads.

    name   the server's, as a user may see it
    after  seconds that an action waits before that is said
    say    told of the first that waits of those that ask for the same properties
    """

    def __init__(self, name: str, after: float, say: Callable[[str], None]) -> None:
        self._name = name
        self._after = after
        self._say = say
        self._lock = threading.Lock()
        self._said: set[tuple[tuple[str, str], ...]] = set()

    @contextmanager
    def watch(self, action: Action, asked: Mapping[str, str]) -> Iterator[Callable[[int], None]]:
        """While an action is at the server; gives what is to be told each stage that the server says it is in."""
        stages = [0]
        timer = threading.Timer(self._after, lambda: self._late(action, asked, stages[-1]))
        timer.daemon = True
        timer.start()
        try:
            yield stages.append
        finally:
            timer.cancel()

    def _late(self, action: Action, asked: Mapping[str, str], stage: int) -> None:
        properties = tuple(sorted(asked.items()))
        with self._lock:
            if stage in _TAKEN or properties in self._said:
                return
            self._said.add(properties)
        so_far, queued = duration(self._after), stage == _QUEUED
        waits = f"has waited {so_far} for a worker" if queued else f"is there for {so_far}, perhaps without a worker"
        wants = ", ".join(f"{name}={value}" for name, value in properties) or "no property"
        self._say(f"remote executor {self._name}: {action_line(action)} {waits}; it asks for {wants}")
