"""The warm parent of workers: imports what actions need once, then forks a fresh child for each action.

A program of its own, started as `python -P zygote.py FD SETTINGS`. It has one thread, so that forking is safe. Over the
socket FD it takes orders, one JSON object a line, and answers each with how the child ended. When the socket closes,
for whatever reason, it kills what runs and ends.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import importlib.util
import json
import os
import resource
import selectors
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


class PackageFinder:
    """Finds packages (import name -> folder) whose parent folders are not on sys.path."""

    def __init__(self, folders: Mapping[str, str]) -> None:
        self._folders = folders

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        folder = self._folders.get(name)
        if folder is None:
            return None
        init = Path(folder, "__init__.py")
        if init.is_file():
            return importlib.util.spec_from_file_location(name, init, submodule_search_locations=[folder])
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [folder]
        return spec


def die_with_parent(kind: int) -> None:
    """Have the kernel send this process a signal when its parent ends (0: no longer)."""
    _libc.prctl(_PR_SET_PDEATHSIG, kind)


@dataclass(slots=True)
class _Child:
    order: int
    pid: int
    started: float


class Zygote:
    """Serves one engine over a connected socket."""

    def __init__(self, engine: socket.socket, settings: Mapping[str, Any]) -> None:
        self._engine = engine
        self._settings = settings
        self._selector = selectors.DefaultSelector()
        self._children: dict[int, _Child] = {}
        self._ours = frozenset(sys.modules)

    def serve(self) -> None:
        """Until the engine is gone."""
        self._selector.register(self._engine, selectors.EVENT_READ)
        received = b""
        try:
            self._answer({"ready": True})
            while True:
                for key, _ in self._selector.select():
                    if key.fd in self._children:
                        self._reap(key.fd)
                        continue
                    data = self._engine.recv(1 << 20)
                    if not data:
                        return
                    *orders, received = (received + data).split(b"\n")
                    for order in orders:
                        self._fork(json.loads(order))
        except (BrokenPipeError, ConnectionResetError):
            return
        finally:
            self._kill_all()

    def _fork(self, order: dict[str, Any]) -> None:
        from modelbuild.execution.worker import work

        started = time.monotonic()
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            self._answer({"id": order["id"], "problem": f"cannot start a process: {error}"})
            return
        if pid == 0:
            try:
                self._forget()
                die_with_parent(signal.SIGKILL)
                if os.getppid() == parent:
                    work(order, self._settings, self._ours)
            finally:
                os._exit(70)
        with suppress(ProcessLookupError, PermissionError):
            os.setpgid(pid, pid)
        descriptor = os.pidfd_open(pid)
        self._children[descriptor] = _Child(order["id"], pid, started)
        self._selector.register(descriptor, selectors.EVENT_READ)

    def _forget(self) -> None:
        """In a child: drop what belongs to the parent."""
        self._selector.close()
        self._engine.close()
        for descriptor in self._children:
            os.close(descriptor)

    def _reap(self, descriptor: int) -> None:
        child = self._children.pop(descriptor)
        self._selector.unregister(descriptor)
        os.close(descriptor)
        _kill_group(child.pid)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.monotonic() - child.started
        ended = os.waitstatus_to_exitcode(status)
        self._answer({"id": child.order, "status": ended, "seconds": seconds, "max_rss": usage.ru_maxrss * 1024})

    def _answer(self, answer: dict[str, Any]) -> None:
        self._engine.sendall(json.dumps(answer).encode() + b"\n")

    def _kill_all(self) -> None:
        for child in self._children.values():
            _kill_group(child.pid)
        for child in self._children.values():
            os.waitpid(child.pid, 0)


def _kill_group(pid: int) -> None:
    """Kill a child and what it left running. Only while it is unreaped: until then its id is no one else's."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def main(descriptor: int, settings: dict[str, Any]) -> None:
    die_with_parent(signal.SIGTERM)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    engine = socket.socket(fileno=descriptor)
    engine.set_inheritable(False)
    sys.path[:] = settings["import_path"]
    sys.meta_path.insert(0, PackageFinder(settings["packages"]))
    importlib.import_module("modelbuild.execution.worker")
    from modelbuild.execution import environment, landlock

    landlock.hold((*settings["readable"], *environment.WRITABLE))
    zygote = Zygote(engine, settings)
    for module in settings["preload"]:
        importlib.import_module(module)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.umask(0o022)
    sys.stdout.flush()
    sys.stderr.flush()
    # What is warm stays shared with the children: the collector would write to every object.
    gc.collect()
    gc.freeze()
    # From here on the closing socket says so, and leaves time to kill whole process groups.
    die_with_parent(0)
    zygote.serve()
    # Not a moment for tearing down what was imported.
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), json.loads(sys.argv[2]))
