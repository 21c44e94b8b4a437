"""A step process, as its parent sees it: it has imported one step, and forks the children that run it."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from modelbuild.execution.isolation.namespaces import View
from modelbuild.execution.worker.streams import Streams

# Bytes to take at once from a line: enough for a few orders, and less than what an allocator asks the kernel for.
CHUNK = 1 << 16


@dataclass(slots=True)
class Given:
    """An order, with its line as it was received, and what the child that does it gets from the parent of the step
    process: a view, and files for what it prints, which a process in a view of its own could not save."""

    order: Mapping[str, Any]
    line: bytes
    view: View
    streams: Streams


@dataclass(slots=True)
class StepProcess:
    """`ready` when its step is imported: before that it runs nothing. `given` are orders without an answer, by id, and
    `unsent` the ids of those that have not been sent."""

    step: str
    pid: int
    line: socket.socket
    ready: bool = False
    given: dict[int, Given] = field(default_factory=dict)
    unsent: list[int] = field(default_factory=list)
    _received: bytes = b""

    def give(self, number: int, given: Given) -> None:
        """Have it do an order."""
        self.given[number] = given
        self.unsent.append(number)
        if self.ready:
            self._send_all()

    def hear(self) -> list[tuple[dict[str, Any], Given]] | None:
        """Return the answers that have come, each with its order; None when it has ended."""
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
                answers.append((answer, self.given.pop(answer["id"])))
        return answers

    def dismiss(self) -> None:
        """Have it kill what it runs and end."""
        self.close()
        if not self.ready:
            # It may not look at its line for long.
            os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Close the line, and what belongs to orders without an answer."""
        self.line.close()
        for number, given in self.given.items():
            given.streams.close()
            if number in self.unsent:
                given.view.close()

    def _send_all(self) -> None:
        for number in self.unsent:
            given = self.given[number]
            descriptors = [given.streams.stdout, given.streams.stderr]
            if given.view.descriptor is not None:
                descriptors.append(given.view.descriptor)
            data = given.line + b"\n"
            with suppress(OSError):  # when it is gone meanwhile, hear() returns None
                self.line.sendall(data[socket.send_fds(self.line, [data], descriptors) :])
            given.view.close()
        self.unsent.clear()
