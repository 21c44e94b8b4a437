"""A branch, as its parent sees it: a process that has imported one step, and forks the children for it."""

from __future__ import annotations

import json
import os
import signal
import socket
from contextlib import closing, suppress
from dataclasses import dataclass, field

from modelbuild.execution.namespaces import View

# Bytes to take at once from a line: enough for a few orders, and less than what an allocator asks the kernel for.
CHUNK = 1 << 16


@dataclass(slots=True)
class Branch:
    """`ready` when its step is imported: before that it runs nothing. `given` are orders without an answer, by id, and
    `views` those of them that have not been sent, in the same order."""

    step: str
    pid: int
    line: socket.socket
    ready: bool = False
    given: dict[int, bytes] = field(default_factory=dict)
    views: dict[int, View] = field(default_factory=dict)
    _received: bytes = b""

    def give(self, number: int, order: bytes, view: View) -> None:
        """Have it do an order, in a view, which is closed."""
        self.given[number] = order
        self.views[number] = view
        if self.ready:
            self._send_all()

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
                self._send_all()
            else:
                del self.given[answer["id"]]
                answers.append(line + b"\n")
        return answers

    def dismiss(self) -> None:
        """Have it kill what it runs and end."""
        self.close()
        if not self.ready:
            # It may not look at its line for long.
            os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Close the line, and views that were not sent."""
        self.line.close()
        for view in self.views.values():
            view.close()

    def _send_all(self) -> None:
        for number, view in self.views.items():
            # When it is gone meanwhile, hear() says so.
            with closing(view), suppress(OSError):
                data = self.given[number] + b"\n"
                if view.descriptor is not None:
                    data = data[socket.send_fds(self.line, [data], [view.descriptor]) :]
                self.line.sendall(data)
        self.views.clear()
