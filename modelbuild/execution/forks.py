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

from modelbuild.execution.branch import CHUNK, Branch
from modelbuild.execution.confine import Code, is_hidden
from modelbuild.execution.import_ahead import import_ahead
from modelbuild.execution.leftover_processes import adopt, end_orphans
from modelbuild.execution.namespaces import View, Views
from modelbuild.execution.streams import Streams
from modelbuild.execution.system_calls import PR_SET_PDEATHSIG, prctl
from modelbuild.execution.worker import Loaded, work

# A branch takes at most so many views at once.
_VIEWS = 64


def die_with_parent(kind: int) -> None:
    """Have the kernel send this process a signal when its parent ends (0: no longer)."""
    prctl(PR_SET_PDEATHSIG, kind)


@dataclass(frozen=True, slots=True)
class _Child:
    order: Mapping[str, Any]
    pid: int
    started: float
    streams: Streams


class Forks:
    """Serves whoever holds the socket's other end: one JSON object a line is an order, or the answer to one.

    A step that is ordered a second time gets a branch: a process forked from this one that imports the step and forks
    the step's children from then on, which find it imported. What is done once is not worth that.

    settings   what all actions have in common (see LocalExecutor and confine.completed)
    ours       modules that were loaded before any was asked for
    views      makes views of the machine, where the kernel allows it; a branch gets one with each order
    branching  False in a branch
    """

    def __init__(
        self,
        line: socket.socket,
        settings: Mapping[str, Any],
        ours: frozenset[str],
        views: Views | None = None,
        branching: bool = True,
    ) -> None:
        self._line = line
        self._settings = settings
        self._ours = ours
        self._views = views
        self._given: deque[View] = deque()
        self._code: dict[str, Code] = {}
        self._branching = branching
        self._selector = selectors.DefaultSelector()
        self._received = b""
        self._served = True
        self._children: dict[int, _Child] = {}
        self._ordered: set[str] = set()
        self._branches: dict[str, Branch | None] = {}  # None: the step cannot be imported ahead

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
        data, views, _, _ = socket.recv_fds(self._line, CHUNK, _VIEWS)
        self._given += map(View, views)
        self._served = bool(data)
        *orders, self._received = (self._received + data).split(b"\n")
        for text in orders:
            order = json.loads(text)
            branch = self._branch_for(order)
            if branch is None:
                self._fork(order)
            else:
                branch.give(order["id"], text, self._view(order))

    def _view(self, order: Mapping[str, Any]) -> View:
        if self._views is not None:
            return self._views.hidden(order["root"]) if is_hidden(order) else self._views.whole()
        return self._given.popleft() if self._given else View()

    def _code_of(self, order: Mapping[str, Any]) -> Code:
        step: str = order["step"]
        if step not in self._code:
            self._code[step] = Code.of([*order["modules"], *self._ours], self._settings["packages"])
        return self._code[step]

    def _answer(self, answer: dict[str, Any]) -> None:
        self._line.sendall(json.dumps(answer).encode() + b"\n")

    # -- children ----------------------------------------------------------------------------------------------------

    def _fork(self, order: Mapping[str, Any]) -> None:
        started = time.monotonic()
        code = self._code_of(order)
        with ExitStack() as made:
            try:
                view = self._view(order)
                made.callback(view.close)
                streams = Streams.in_memory()
                made.callback(streams.close)
                pid = _forked()
            except OSError as error:
                self._answer({"id": order["id"], "problem": f"cannot start a process: {error}"})
                return
            made.pop_all()
        if pid == 0:
            try:
                self._forget()
                work(order, self._settings, self._loaded, code, streams, view, not self._branching)
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
        for view in self._given:
            view.close()
        self._selector.close()
        self._line.close()
        for descriptor, child in self._children.items():
            os.close(descriptor)
            child.streams.close()
        for branch in filter(None, self._branches.values()):
            branch.line.close()

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
        try:
            child.streams.save(child.order["stdout"], child.order["stderr"])
        except OSError as error:
            answer["problem"] = f"cannot keep what the step printed: {error}"
        child.streams.close()
        self._answer(answer)

    def _kill_all(self) -> None:
        branches = list(filter(None, self._branches.values()))
        for branch in branches:
            branch.dismiss()
        for child in self._children.values():
            os.kill(child.pid, signal.SIGKILL)
        for child in self._children.values():
            os.waitpid(child.pid, 0)
        for branch in branches:
            os.waitpid(branch.pid, 0)
        end_orphans(())

    def _end_orphans(self) -> None:
        branches = filter(None, self._branches.values())
        end_orphans([child.pid for child in self._children.values()] + [branch.pid for branch in branches])

    # -- branches ----------------------------------------------------------------------------------------------------

    def _branch_for(self, order: Mapping[str, Any]) -> Branch | None:
        """The branch that is to do the order, if any."""
        if not self._branching or not order["ahead"]:
            return None
        name = json.dumps([order["step"], order["ahead"]], sort_keys=True)
        if name in self._ordered and name not in self._branches:
            self._branches[name] = self._grow(name, order)
        self._ordered.add(name)
        return self._branches.get(name)

    def _grow(self, name: str, order: Mapping[str, Any]) -> Branch | None:
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
                if import_ahead(order["step"], order["ahead"], self._settings, code, view):
                    # As in a parent of branches: its closing socket leaves time to kill whole process groups.
                    die_with_parent(0)
                    Forks(theirs, self._settings, self._ours, branching=False).serve()
            finally:
                os._exit(0)
        theirs.close()
        view.close()
        branch = Branch(order["step"], pid, ours)
        self._selector.register(ours, selectors.EVENT_READ, partial(self._hear, name, branch))
        return branch

    def _hear(self, name: str, branch: Branch) -> None:
        answers = branch.hear()
        for answer in answers or ():
            self._line.sendall(answer)
        if answers is None:
            self._selector.unregister(branch.line)
            branch.close()
            os.waitpid(branch.pid, 0)
            self._branches[name] = None
            self._end_orphans()
            for number, order in branch.given.items():
                if branch.ready:
                    self._answer({"id": number, "problem": f"the process that had imported step {branch.step} ended"})
                else:
                    self._fork(json.loads(order))


def _forked() -> int:
    """As os.fork(); the child is killed with its parent."""
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        die_with_parent(signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(70)
    return pid
