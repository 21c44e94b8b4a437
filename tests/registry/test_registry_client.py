"""A registry that sends a few bytes a second."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from modelbuild.registry import client
from modelbuild.registry.address import parse_registry_address
from modelbuild.registry.client import Registry, RegistryProblem


@pytest.fixture
def host() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def trickle(connection: socket.socket) -> None:
            with suppress(OSError), connection:
                for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n" + b"x" * 9000:
                    connection.send(bytes([byte]))
                    time.sleep(0.01)

        def serve() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=trickle, args=listening.accept()[:1], daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        # accept() in another thread outlives close().
        listening.shutdown(socket.SHUT_RDWR)


def test_a_trickle_is_given_up(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_TIMEOUT", 0.7)
    monkeypatch.setattr(client, "ATTEMPTS", (0.0, 0.0))
    address = parse_registry_address(f"oci://{host}/engines@sha256:{'0' * 64}")
    assert address is not None
    began = time.monotonic()
    with pytest.raises(RegistryProblem, match=r"^it sent fewer than 1024 bytes a second for 0\.7 s$"):
        Registry(address).ask("GET", "/manifests/latest")
    assert time.monotonic() - began < 5
