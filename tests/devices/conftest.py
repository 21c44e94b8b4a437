"""Devices: OpenSSH's server on this machine, and files for jobs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from modelbuild.devices.device import LocalFile
from tests.devices.sshd import Sshd, children, started, wait_for


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """Yield a server that the tests of one process share."""
    with started(tmp_path_factory.mktemp("sshd")) as found:
        yield found


@pytest.fixture(autouse=True)
def no_connection_is_left() -> Iterator[None]:
    """Fail a test that leaves an ssh, which would run until pytest ends."""
    yield
    wait_for(lambda: not children("ssh"), "a connection is left open")


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., LocalFile]:
    """Return a function that writes a file for a device: a script by its text, or bytes."""

    def write(content: str | bytes) -> LocalFile:
        data = f"#!/bin/sh\n{content}\n".encode() if isinstance(content, str) else content
        digest = hashlib.sha256(data).hexdigest()
        path = tmp_path / digest
        path.write_bytes(data)
        return LocalFile(path, digest, len(data))

    return write
