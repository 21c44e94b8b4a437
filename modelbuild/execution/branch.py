"""A branch, as its parent sees it: a process that has imported one step, and forks the children for it."""

from __future__ import annotations

import json
import os
import signal
import socket
from contextlib import suppress
from dataclasses import dataclass, field

# Bytes to take at once from a line: enough for a few orders, and less than what an allocator asks the kernel for.
CHUNK = 1 << 16


@dataclass(slots=True)
class Branch:
    """`ready` when its step is imported: before that it runs nothing. `given` are orders without an answer, by id."""

    step: str
    pid: int
    line: socket.socket
    ready: bool = False
    given: dict[int, bytes] = field(default_factory=dict)
    _received: bytes = b""

    def give(self, number: int, order: bytes) -> None:
        self.given[number] = order
        if self.ready:
            self._send(order)

    def hear(self) -> list[bytes] | None:
        """Answers that have come, to be passed on; None when it has ended."""
        try:
            data = self.line.recv(CHUNK)
        except ConnectionResetError:
            return None
        if not data:
            return None
        *lines, self._received = (self._received + data).split(b"\n")
        answers = []
        for line in lines:
            answer = json.loads(line)
            if "ready" in answer:
                self.ready = True
                for order in self.given.values():
                    self._send(order)
            else:
                del self.given[answer["id"]]
                answers.append(line + b"\n")
        return answers

    def dismiss(self) -> None:
        """Have it kill what it runs and end."""
        self.line.close()
        if not self.ready:
            # It may not look at its line for long.
            os.kill(self.pid, signal.SIGKILL)

    def _send(self, order: bytes) -> None:
        # When it is gone meanwhile, hear() says so.
        with suppress(OSError):
            self.line.sendall(order + b"\n")
