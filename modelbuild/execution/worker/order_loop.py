"""A process with one thread that forks a fresh child for each order that comes over a socket."""

from __future__ import annotations

import gc
import json
import os
import selectors
import signal
import socket
import time
from collections import deque
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from modelbuild.execution.isolation.confine import Code, is_hidden
from modelbuild.execution.isolation.leftover_processes import adopt, end_orphans
from modelbuild.execution.isolation.namespaces import View, Views
from modelbuild.execution.isolation.system_calls import PR_SET_PDEATHSIG, prctl
from modelbuild.execution.worker.child import Loaded, work
from modelbuild.execution.worker.step_import import import_step
from modelbuild.execution.worker.step_process import CHUNK, Given, StepProcess
from modelbuild.execution.worker.streams import Streams

# A process takes at most so many views at once.
_DESCRIPTORS = 192


def die_with_parent(kind: int) -> None:
    """Have the kernel send this process a signal when its parent ends (0: no longer)."""
    prctl(PR_SET_PDEATHSIG, kind)


@dataclass(frozen=True, slots=True)
class _Child:
    order: Mapping[str, Any]
    pid: int
    started: float
    streams: Streams


class OrderLoop:
    """Serves whoever holds the socket's other end: one JSON object a line is an order, or the answer to one.

    A step that is ordered a second time gets a step process, which is forked from this process, imports the step, and
    forks the step's children from then on, which find it imported. It serves its parent with a loop of its own.

    settings     what all actions have in common (see LocalExecutor and confine.completed)
    ours         modules that were loaded before any was asked for
    views        makes views of the machine, where the kernel allows it
    descriptors  how many come with each order in a step process (see Given): of stdout, of stderr and, where there are
                 views, of one; 0 elsewhere
    """

    def __init__(
        self,
        line: socket.socket,
        settings: Mapping[str, Any],
        ours: frozenset[str],
        views: Views | None = None,
        descriptors: int = 0,
    ) -> None:
        self._line = line
        self._settings = settings
        self._ours = ours
        self._views = views
        self._descriptors = descriptors
        self._given: deque[int] = deque()
        self._code: dict[str, Code] = {}
        self._selector = selectors.DefaultSelector()
        self._received = b""
        self._served = True
        self._children: dict[int, _Child] = {}
        self._ordered: set[str] = set()
        self._processes: dict[str, StepProcess | None] = {}  # None: the step cannot be imported ahead

    def serve(self) -> None:
        """Until the other end is gone."""
        adopt()
        self._loaded = Loaded.now(self._settings["packages"], self._ours)
        # What is here stays shared with the children: the collector would write to every object.
        gc.collect()
        gc.freeze()
        self._selector.register(self._line, selectors.EVENT_READ, self._listen)
        try:
            self._answer({"ready": True})
            while self._served:
                for key, _ in self._selector.select():
                    key.data()
        except (BrokenPipeError, ConnectionResetError):
            return
        finally:
            self._kill_all()

    def _listen(self) -> None:
        data, given, _, _ = socket.recv_fds(self._line, CHUNK, _DESCRIPTORS)
        self._given += given
        self._served = bool(data)
        *orders, self._received = (self._received + data).split(b"\n")
        for text in orders:
            order = json.loads(text)
            process = self._process_for(order)
            if process is None:
                self._begin(order)
                continue
            try:
                process.give(order["id"], Given(order, text, *self._surroundings(order)))
            except OSError as error:
                self._refuse(order, error)

    def _begin(self, order: Mapping[str, Any]) -> None:
        try:
            self._fork(order)
        except OSError as error:
            self._refuse(order, error)

    def _refuse(self, order: Mapping[str, Any], error: OSError) -> None:
        self._answer({"id": order["id"], "problem": f"cannot start a process: {error}"})

    def _surroundings(self, order: Mapping[str, Any]) -> tuple[View, Streams]:
        """Return what the child that does the order sees, and files for what it prints. Raises OSError."""
        view = View()
        printed: tuple[int, ...] = ()
        if self._descriptors:
            first, second, *rest = (self._given.popleft() for _ in range(self._descriptors))
            view, printed = View(*rest), (first, second)
        elif self._views is not None:
            view = self._views.hidden(order["root"]) if is_hidden(order) else self._views.whole()
        try:
            return view, Streams.in_memory(*printed)
        except OSError:
            view.close()
            raise

    def _code_of(self, order: Mapping[str, Any]) -> Code:
        step: str = order["step"]
        if step not in self._code:
            self._code[step] = Code.of([*order["modules"], *self._ours], self._settings["packages"])
        return self._code[step]

    def _answer(self, answer: dict[str, Any]) -> None:
        self._line.sendall(json.dumps(answer).encode() + b"\n")

    # -- children ----------------------------------------------------------------------------------------------------

    def _fork(self, order: Mapping[str, Any]) -> None:
        """Start a child that does an order. Raises OSError."""
        started = time.monotonic()
        code = self._code_of(order)
        with ExitStack() as made:
            view, streams = self._surroundings(order)
            made.callback(view.close)
            made.callback(streams.close)
            pid = _forked()
            made.pop_all()
        if pid == 0:
            try:
                self._forget()
                work(order, self._settings, self._loaded, code, streams, view, bool(self._descriptors))
            finally:
                os._exit(70)
        view.close()
        descriptor = os.pidfd_open(pid)
        self._children[descriptor] = _Child(order, pid, started, streams)
        self._selector.register(descriptor, selectors.EVENT_READ, partial(self._reap, descriptor))

    def _forget(self) -> None:
        """In a child: drop what belongs to the parent."""
        if self._views is not None:
            self._views.close()
        for descriptor in self._given:
            os.close(descriptor)
        self._selector.close()
        self._line.close()
        for descriptor, child in self._children.items():
            os.close(descriptor)
            child.streams.close()
        for process in filter(None, self._processes.values()):
            process.close()

    def _reap(self, descriptor: int) -> None:
        child = self._children.pop(descriptor)
        self._selector.unregister(descriptor)
        os.close(descriptor)
        _, status, usage = os.wait4(child.pid, 0)
        self._end_orphans()
        seconds = time.monotonic() - child.started
        answer = {
            "id": child.order["id"],
            "status": os.waitstatus_to_exitcode(status),
            "report": child.streams.reported(),
            "seconds": seconds,
            "max_rss": usage.ru_maxrss * 1024,
        }
        if not self._descriptors:
            _save(child.streams, child.order, answer)
        child.streams.close()
        self._answer(answer)

    def _kill_all(self) -> None:
        processes = list(filter(None, self._processes.values()))
        for process in processes:
            process.dismiss()
        for child in self._children.values():
            os.kill(child.pid, signal.SIGKILL)
        for child in self._children.values():
            os.waitpid(child.pid, 0)
        for process in processes:
            os.waitpid(process.pid, 0)
        end_orphans(())

    def _end_orphans(self) -> None:
        processes = filter(None, self._processes.values())
        end_orphans([child.pid for child in self._children.values()] + [process.pid for process in processes])

    # -- step processes -----------------------------------------------------------------------------------------------

    def _process_for(self, order: Mapping[str, Any]) -> StepProcess | None:
        """The process that is to do the order, if any."""
        if self._descriptors or not order["ahead"]:
            return None
        name = json.dumps([order["step"], order["ahead"]], sort_keys=True)
        if name in self._ordered and name not in self._processes:
            self._processes[name] = self._start_process(name, order)
        self._ordered.add(name)
        return self._processes.get(name)

    def _start_process(self, name: str, order: Mapping[str, Any]) -> StepProcess | None:
        code = self._code_of(order)
        ours, theirs = socket.socketpair()
        try:
            view = View() if self._views is None else self._views.hidden()
            pid = _forked()
        except OSError:
            return None
        if pid == 0:
            try:
                self._forget()
                ours.close()
                if import_step(order["step"], order["ahead"], self._settings, code, view):
                    # As in a parent of processes: its closing socket leaves time to kill whole process groups.
                    die_with_parent(0)
                    OrderLoop(theirs, self._settings, self._ours, descriptors=3 if view else 2).serve()
            finally:
                os._exit(0)
        theirs.close()
        view.close()
        process = StepProcess(order["step"], pid, ours)
        self._selector.register(ours, selectors.EVENT_READ, partial(self._hear, name, process))
        return process

    def _hear(self, name: str, process: StepProcess) -> None:
        answers = process.hear()
        for answer, given in answers or ():
            _save(given.streams, given.order, answer)
            given.streams.close()
            self._answer(answer)
        if answers is None:
            self._selector.unregister(process.line)
            process.close()
            os.waitpid(process.pid, 0)
            self._processes[name] = None
            self._end_orphans()
            for number, given in process.given.items():
                if process.ready:
                    self._answer({"id": number, "problem": f"the process that had imported step {process.step} ended"})
                else:
                    self._begin(given.order)


def _save(streams: Streams, order: Mapping[str, Any], answer: dict[str, Any]) -> None:
    """Save what a step printed where the order says."""
    try:
        streams.save(order["stdout"], order["stderr"])
    except OSError as error:
        answer["problem"] = f"cannot keep what the step printed: {error}"


def _forked() -> int:
    """As os.fork(); the child is killed with its parent."""
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        die_with_parent(signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(70)
    return pid
