"""A process with one thread that forks a fresh child for each order that comes over a socket."""

from __future__ import annotations

import fcntl
import gc
import json
import os
import selectors
import signal
import socket
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from modelbuild.execution.branch import CHUNK, Branch
from modelbuild.execution.import_ahead import import_ahead
from modelbuild.execution.orphans import adopt, end_orphans
from modelbuild.execution.system_calls import PR_SET_PDEATHSIG, prctl
from modelbuild.execution.worker import Loaded, Streams, work


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

    settings   what all actions have in common (see LocalExecutor)
    ours       modules that were loaded before any was asked for
    branching  False in a branch
    """

    def __init__(
        self, line: socket.socket, settings: Mapping[str, Any], ours: frozenset[str], branching: bool = True
    ) -> None:
        self._line = line
        self._settings = settings
        self._ours = ours
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
        data = self._line.recv(CHUNK)
        self._served = bool(data)
        *orders, self._received = (self._received + data).split(b"\n")
        for text in orders:
            order = json.loads(text)
            branch = self._branch_for(order)
            if branch is None:
                self._fork(order)
            else:
                branch.give(order["id"], text)

    def _answer(self, answer: dict[str, Any]) -> None:
        self._line.sendall(json.dumps(answer).encode() + b"\n")

    # -- children ----------------------------------------------------------------------------------------------------

    def _fork(self, order: Mapping[str, Any]) -> None:
        started = time.monotonic()
        with ExitStack() as made:
            try:
                streams = _in_memory()
                made.callback(streams.close)
                pid = _forked()
            except OSError as error:
                self._answer({"id": order["id"], "problem": f"cannot start a process: {error}"})
                return
            made.pop_all()
        if pid == 0:
            try:
                self._forget()
                work(order, self._settings, self._loaded, streams)
            finally:
                os._exit(70)
        descriptor = os.pidfd_open(pid)
        self._children[descriptor] = _Child(order, pid, started, streams)
        self._selector.register(descriptor, selectors.EVENT_READ, partial(self._reap, descriptor))

    def _forget(self) -> None:
        """In a child: drop what belongs to the parent."""
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
            "report": _content(child.streams.report).decode(errors="replace"),
            "seconds": seconds,
            "max_rss": usage.ru_maxrss * 1024,
        }
        try:
            _save(child.streams.stdout, child.order["stdout"])
            _save(child.streams.stderr, child.order["stderr"])
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
        ours, theirs = socket.socketpair()
        try:
            pid = _forked()
        except OSError:
            return None
        if pid == 0:
            try:
                self._forget()
                ours.close()
                if import_ahead(order["step"], order["ahead"], self._settings):
                    # As in a parent of branches: its closing socket leaves time to kill whole process groups.
                    die_with_parent(0)
                    Forks(theirs, self._settings, self._ours, branching=False).serve()
            finally:
                os._exit(0)
        theirs.close()
        branch = Branch(order["step"], pid, ours)
        self._selector.register(ours, selectors.EVENT_READ, partial(self._hear, name, branch))
        return branch

    def _hear(self, name: str, branch: Branch) -> None:
        answers = branch.hear()
        for answer in answers or ():
            self._line.sendall(answer)
        if answers is None:
            self._selector.unregister(branch.line)
            branch.line.close()
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


def _in_memory() -> Streams:
    """Making files on a disk would take longer than most of what is done for an action."""
    made = []
    try:
        for name in ("report", "stdout", "stderr"):
            made.append(os.memfd_create(name))
            fcntl.fcntl(made[-1], fcntl.F_SETFL, os.O_APPEND)
    except OSError:
        for descriptor in made:
            os.close(descriptor)
        raise
    return Streams(*made)


def _content(descriptor: int) -> bytes:
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)


def _save(descriptor: int, path: str) -> None:
    """Write what is in memory to a new file, if anything."""
    if os.fstat(descriptor).st_size:
        done = 0
        with open(path, "xb") as target:  # never to one that a link leads to
            while sent := os.sendfile(target.fileno(), descriptor, done, 1 << 30):
                done += sent
