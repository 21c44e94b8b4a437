"""Coroutines in one thread, which await each other and calls in other threads.

It replaces asyncio, whose import takes a tenth of the build of one leaf. Unlike asyncio, it reports the moment when no
coroutine can continue. The scheduler then knows all actions that could start, and starts the first of them.
"""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Executor, Future
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Promise(Generic[T]):
    """A value that is set once; any number of coroutines of a loop may await it."""

    __slots__ = ("_error", "_loop", "_value", "_waiting", "done")

    def __init__(self, loop: Loop) -> None:
        self.done = False
        self._loop = loop
        self._value: Any = None
        self._error: BaseException | None = None
        self._waiting: list[tuple[Coroutine[Any, None, Any], Promise[Any]]] = []

    def set(self, value: T | None, error: BaseException | None = None) -> None:
        """Set the value, or the error that `await` raises."""
        self.done, self._value, self._error = True, value, error
        self._loop.ready.extend(self._waiting)

    def __await__(self) -> Generator[Promise[T], None, T]:
        if not self.done:
            yield self
        return self.value()

    def value(self) -> T:
        """Return the value, or raise the error."""
        if self._error is not None:
            raise self._error
        value: T = self._value
        return value

    def wake(self, coroutine: Coroutine[Any, None, Any], end: Promise[Any]) -> None:
        """Resume a coroutine when the value is set; `end` is the promise of its own value."""
        self._waiting.append((coroutine, end))


class Loop:
    """Runs coroutines until the main coroutine ends. The first error of any coroutine ends the loop.

    threads   runs blocking calls
    idle      called when no coroutine can continue; it may set promises
    """

    def __init__(self, threads: Executor, idle: Callable[[], None]) -> None:
        self.ready: deque[tuple[Coroutine[Any, None, Any], Promise[Any]]] = deque()
        self._threads = threads
        self._idle = idle
        self._ended: queue.SimpleQueue[tuple[Promise[Any], Future[Any]]] = queue.SimpleQueue()
        self._calls = 0
        self._live: set[Coroutine[Any, None, Any]] = set()

    @property
    def busy(self) -> bool:
        """True while calls run in other threads."""
        return self._calls > 0

    def spawn(self, coroutine: Coroutine[Any, None, T]) -> Promise[T]:
        """Start a coroutine, and return the promise of its value."""
        end: Promise[T] = Promise(self)
        self._live.add(coroutine)
        self.ready.append((coroutine, end))
        return end

    async def call(self, work: Callable[[], T], threads: Executor | None = None) -> T:
        """Return the result of a call in another thread: of the loop's own, or of others."""
        result: Promise[T] = Promise(self)
        self._calls += 1
        (threads or self._threads).submit(work).add_done_callback(lambda future: self._ended.put((result, future)))
        return await result

    def run(self, main: Coroutine[Any, None, T]) -> T:
        """Return the value of a coroutine."""
        end = self.spawn(main)
        try:
            while True:
                self._advance()
                if end.done:
                    return end.value()
                self._idle()
                if not self.ready:
                    self._wait()
        finally:
            for coroutine in self._live:
                coroutine.close()

    def _advance(self) -> None:
        """Run coroutines until all of them wait."""
        while self.ready:
            coroutine, end = self.ready.popleft()
            try:
                coroutine.send(None).wake(coroutine, end)
            except StopIteration as stop:
                self._live.remove(coroutine)
                end.set(stop.value)

    def _wait(self) -> None:
        """Wait for the end of a call."""
        if not self._calls:
            raise RuntimeError("coroutines wait for each other")
        result, future = self._ended.get()
        self._calls -= 1
        error = future.exception()
        result.set(None if error is not None else future.result(), error)
