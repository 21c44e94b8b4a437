"""A branch, as its parent sees it: a process that has imported one step, and forks the children for it."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Branch:
    """`ready` when its step is imported: before that it runs nothing. `given` are orders without an answer, by id."""

    step: str
    pid: int
    line: socket.socket
    ready: bool = False
    given: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    _received: bytes = b""

    def give(self, order: Mapping[str, Any]) -> None:
        self.given[order["id"]] = order
        if self.ready:
            self._send(order)

    def hear(self) -> list[bytes] | None:
        """Answers that have come, to be passed on; None when it has ended."""
        try:
            data = self.line.recv(1 << 20)
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

    def _send(self, order: Mapping[str, Any]) -> None:
        # When it is gone meanwhile, hear() says so.
        with suppress(OSError):
            self.line.sendall(json.dumps(order).encode() + b"\n")
