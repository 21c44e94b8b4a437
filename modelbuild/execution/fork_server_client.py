"""The engine's side of a fork server: start it, send it orders, and wait for their results."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from modelbuild.execution.isolation import environment
from modelbuild.execution.worker import fork_server

if TYPE_CHECKING:
    from modelbuild.execution.orders import LocalOrder, NumberedOrder, ServerSettings

# Seconds for a fork server to kill its children and end.
_PATIENCE = 10

# Maximum number of characters that are shown of a part of a step's work.
_MOST_SHOWN = 60


@dataclass(frozen=True, slots=True)
class EndedProcess:
    """The end of a worker: its exit status, or minus the signal that killed it, and its report (see worker/child.py).
    `problem` is the reason if it never ran; it is `late` if it was killed because it reached its limit. It never ran
    either if it is `unfit` (see orders.Unfit)."""

    status: int = 0
    report: str = ""
    seconds: float = 0.0
    max_rss: int = 0
    problem: str = ""
    late: bool = False
    unfit: bool = False


class ForkServer:
    """A process (see worker/fork_server.py) that imports modules, and forks a worker for each order. Safe for many
    threads.

    It starts at once. Starting takes a while, so a build may start a fork server before it has settings for it.

    program  the Python to start, with the folder of its environment; by default this process's Python
    """

    def __init__(self, program: str = sys.executable, prefix: str = sys.prefix) -> None:
        self.program = program
        self._prefix = prefix
        self._log = os.memfd_create("log")
        self._socket, theirs = socket.socketpair()
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._pending: dict[int, tuple[Future[EndedProcess], Callable[[str], object]]] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self.ready = False
        self._began = time.monotonic()
        self._on_ready: Callable[[float], object] = lambda seconds: None
        self._closing = False
        self._over = ""
        self._thread = threading.Thread(target=self._live, args=(theirs,), name="server", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return not self._over

    def begin(self, settings: ServerSettings, on_ready: Callable[[float], object] = lambda seconds: None) -> None:
        """Send the settings (see orders.py). Call once, before run(). Calls `on_ready`, from another thread, with the
        seconds since the process was started, when it has imported its modules."""
        self._on_ready = on_ready
        data = json.dumps(settings).encode()
        # If the process has ended, run() reports it.
        with self._lock, suppress(OSError):
            self._socket.sendall(fork_server.LENGTH.pack(len(data)) + data)

    def run(self, order: LocalOrder, show: Callable[[str], object] = lambda part: None) -> EndedProcess:
        """Run an order in a worker; return when it has ended. Calls `show`, from another thread, with parts of its
        work that begin, as one line each."""
        ended: Future[EndedProcess] = Future()
        with self._lock:
            if self._over:
                return EndedProcess(problem=self._over)
            number = next(self._numbers)
            self._pending[number] = ended, show
            numbered: NumberedOrder = {**order, "id": number}
            # If the process has ended, the reading thread reports it.
            with suppress(OSError):
                self._socket.sendall(json.dumps(numbered, default=_plain).encode() + b"\n")
        return ended.result()

    def close(self) -> None:
        """End the process and all its workers."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._closing = True
            self._stop_importing()
        self._thread.join()

    def _stop_importing(self) -> None:
        """Terminate the process if it still imports modules: it does not read the socket then, and runs nothing."""
        if self._closing and self._process is not None and not self.ready:
            self._process.terminate()

    def _live(self, theirs: socket.socket) -> None:
        # The kernel ends the process when this thread, its parent, ends; so the thread lives as long as the process.
        try:
            with theirs:
                process = subprocess.Popen(
                    [
                        self.program,
                        *environment.PYTHON_OPTIONS,
                        fork_server.__file__,
                        str(theirs.fileno()),
                        self._prefix,
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=self._log,
                    stderr=self._log,
                    cwd="/",
                    env=environment.variables(Path(os.devnull), cpus=1, prefix=self._prefix),
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
        except OSError as error:
            self._end(f"cannot start a worker process: {error}")
            return
        with self._lock:
            self._process = process
            self._stop_importing()
        with self._socket.makefile("rb") as answers, suppress(ConnectionResetError):
            for line in answers:
                answer = json.loads(line)
                if "ready" in answer:
                    self.ready = True
                    self._on_ready(time.monotonic() - self._began)
                    continue
                number = answer.pop("id")
                if "part" in answer:
                    with self._lock:
                        _, show = self._pending[number]
                    show(_line(answer["part"]))
                    continue
                with self._lock:
                    ended, _ = self._pending.pop(number)
                ended.set_result(EndedProcess(**answer))
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._end(self._why(process.returncode))

    def _why(self, status: int) -> str:
        how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with exit status {status}"
        lines = os.pread(self._log, os.fstat(self._log).st_size, 0).decode(errors="replace").strip().splitlines()
        how += f": {lines[-1]}" if lines else ""
        return f"the process that starts workers {how}"

    def _end(self, why: str) -> None:
        with self._lock:
            self._over = why
            pending, self._pending = self._pending, {}
        self._socket.close()
        os.close(self._log)
        for ended, _ in pending.values():
            ended.set_result(EndedProcess(problem=why))


def _line(part: str) -> str:
    """Return a step's text as a short line without control characters."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in part).split())[:_MOST_SHOWN]


def _plain(value: object) -> object:
    """Return a read-only mapping of parameters as a dict, for JSON."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not a JSON value")
