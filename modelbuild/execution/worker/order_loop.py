"""Fork a new child for each order from a socket, in a process with one thread."""

from __future__ import annotations

import gc
import json
import os
import selectors
import signal
import socket
import time
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from modelbuild.execution.isolation.confine import Code, is_hidden
from modelbuild.execution.isolation.leftover_processes import adopt, end_orphans
from modelbuild.execution.isolation.namespaces import View, Views
from modelbuild.execution.isolation.system_calls import PR_SET_PDEATHSIG, prctl
from modelbuild.execution.worker.child import LoadedStep, work
from modelbuild.execution.worker.keyed_finder import KeyedFinder
from modelbuild.execution.worker.streams import Streams

if TYPE_CHECKING:
    from modelbuild.execution.orders import Answer, CompletedSettings, Failure, NumberedOrder, Part, Ready, Unfit

# Bytes per read from the socket: enough for a few orders, and less than an allocator requests from the kernel.
_CHUNK = 1 << 16

# Seconds between checks of the running children.
_LOOK = 0.25


def die_with_parent(kind: int) -> None:
    """Make the kernel send this process a signal when its parent ends (0: no signal)."""
    prctl(PR_SET_PDEATHSIG, kind)


@dataclass(slots=True)
class _Child:
    """A running child; `part` is the part of its work that the engine knows; it is `late` if it was killed because it
    reached its limit."""

    order: NumberedOrder
    pid: int
    started: float
    streams: Streams
    part: str = ""
    late: bool = False


class OrderLoop:
    """Serves the engine over a socket: each line is a JSON object, an order or its answer.

    ours      modules that were loaded before the preloads
    finder    the finder of installed modules, by which the preloads were imported
    views     makes views of the machine, if the kernel allows it
    """

    def __init__(
        self,
        line: socket.socket,
        settings: CompletedSettings,
        ours: frozenset[str],
        finder: KeyedFinder,
        views: Views | None = None,
    ) -> None:
        self._line = line
        self._settings = settings
        self._ours = ours
        self._finder = finder
        self._views = views
        self._code: dict[tuple[str, ...], Code] = {}
        self._selector = selectors.DefaultSelector()
        self._received = b""
        self._served = True
        self._children: dict[int, _Child] = {}
        self._look = 0.0  # the time to check the children next

    def serve(self) -> None:
        """Run orders until the engine closes the socket."""
        adopt()
        self._loaded = LoadedStep.now(self._settings["packages"], self._ours)
        # The garbage collector would write to every object, which copies the memory shared with children.
        gc.collect()
        gc.freeze()
        gc.enable()
        self._selector.register(self._line, selectors.EVENT_READ, self._listen)
        try:
            self._answer({"ready": True})
            while self._served:
                for key, _ in self._selector.select(_LOOK if self._children else None):
                    key.data()
                self._look_at_children()
        except (BrokenPipeError, ConnectionResetError):
            return
        finally:
            self._kill_all()

    def _listen(self) -> None:
        data = self._line.recv(_CHUNK)
        self._served = bool(data)
        *orders, self._received = (self._received + data).split(b"\n")
        for text in orders:
            order: NumberedOrder = json.loads(text)
            try:
                self._fork(order)
            except OSError as error:
                self._answer({"id": order["id"], "problem": f"cannot start a process: {error}"})

    def _look_at_children(self) -> None:
        """Send the parts of the work that children have begun since the last call, and kill the children that reached
        their limit. _reap() kills their processes."""
        now = time.monotonic()
        if now < self._look:
            return
        self._look = now + _LOOK
        for child in self._children.values():
            part = child.streams.shown()
            if part != child.part:
                child.part = part
                self._answer({"id": child.order["id"], "part": part})
            limit = child.order["limit"]
            if limit is not None and now - child.started > limit and not child.late:
                child.late = True
                os.kill(child.pid, signal.SIGKILL)

    def _answer(self, answer: Answer | Failure | Part | Ready | Unfit) -> None:
        self._line.sendall(json.dumps(answer).encode() + b"\n")

    def _fork(self, order: NumberedOrder) -> None:
        """Start a child for an order, unless the preloads would import other modules for it. Raises OSError."""
        started = time.monotonic()
        code, keyed = self._code_of(order), self._finder.of(order["distributions"])
        if not self._finder.fits(keyed):
            self._answer({"id": order["id"], "unfit": True})
            return
        with ExitStack() as made:
            view = self._view(order)
            made.callback(view.close)
            streams = Streams.in_memory()
            made.callback(streams.close)
            pid = _forked()
            made.pop_all()
        if pid == 0:
            try:
                self._forget()
                self._finder.keyed = keyed
                work(order, self._settings, self._loaded, code, streams, view)
            finally:
                os._exit(70)
        view.close()
        descriptor = os.pidfd_open(pid)
        self._children[descriptor] = _Child(order, pid, started, streams)
        self._selector.register(descriptor, selectors.EVENT_READ, partial(self._reap, descriptor))

    def _view(self, order: NumberedOrder) -> View:
        if self._views is None:
            return View()
        return self._views.hidden(order["root"]) if is_hidden(order) else self._views.whole()

    def _code_of(self, order: NumberedOrder) -> Code:
        # Actions of one step differ in their plugins.
        modules = tuple(order["modules"])
        if modules not in self._code:
            self._code[modules] = Code.of([*modules, *self._ours], self._settings["packages"])
        return self._code[modules]

    def _forget(self) -> None:
        """In a child: close the parent's descriptors."""
        if self._views is not None:
            self._views.close()
        self._selector.close()
        self._line.close()
        for descriptor, child in self._children.items():
            os.close(descriptor)
            child.streams.close()

    def _reap(self, descriptor: int) -> None:
        child = self._children.pop(descriptor)
        self._selector.unregister(descriptor)
        os.close(descriptor)
        _, status, usage = os.wait4(child.pid, 0)
        end_orphans([other.pid for other in self._children.values()])
        answer: Answer = {
            "id": child.order["id"],
            "status": os.waitstatus_to_exitcode(status),
            "report": child.streams.reported(),
            "late": child.late and status == signal.SIGKILL,
            "seconds": time.monotonic() - child.started,
            "max_rss": usage.ru_maxrss * 1024,
        }
        try:
            child.streams.save(child.order["stdout"], child.order["stderr"])
        except OSError as error:
            answer["problem"] = f"cannot store the step's output: {error}"
        child.streams.close()
        self._answer(answer)

    def _kill_all(self) -> None:
        for child in self._children.values():
            os.kill(child.pid, signal.SIGKILL)
        for child in self._children.values():
            os.waitpid(child.pid, 0)
        end_orphans(())


def _forked() -> int:
    """Fork like os.fork(); the kernel kills the child with its parent."""
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        die_with_parent(signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(70)
    return pid
