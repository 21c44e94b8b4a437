"""A TCP proxy on 127.0.0.1 in front of a real server, which breaks connections on demand."""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress

# What to do with the n-th piece of data that passes: '' pass it on, 'reset', 'close' (truncation), 'delay', 'swallow'
# (the line goes dead), 'flip' (a bit of it).
Plan = Callable[[int], str]


class Proxy:
    """Forwards `port` to a server's port."""

    def __init__(self, server: int, plan: Plan = lambda n: "", delay: float = 0.2) -> None:
        self.plan = plan
        self.passed = 0
        self._server = server
        self._delay = delay
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self._server))
            except OSError:
                near.close()
                continue
            self._open += [near, far]
            for a, b in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(a, b), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        dead = False
        with suppress(OSError):
            while data := source.recv(1 << 16):
                with self._lock:
                    self.passed += 1
                    what = self.plan(self.passed)
                dead |= what == "swallow"
                if dead:
                    continue
                if what == "delay":
                    time.sleep(self._delay)
                elif what == "reset":
                    for each in (source, sink):
                        each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                        each.close()
                    return
                elif what == "close":
                    sink.sendall(data[: len(data) // 2])
                    break
                elif what == "flip":
                    data = data[:-1] + bytes([data[-1] ^ 1])
                sink.sendall(data)
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


def seeded(seed: int, rate: float) -> Plan:
    """Faults of every kind, the same for each seed as long as the same data passes."""
    draw = random.Random(seed)
    kinds = ("reset", "close", "delay", "swallow", "flip")
    return lambda n: draw.choice(kinds) if draw.random() < rate else ""
