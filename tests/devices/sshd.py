"""OpenSSH's server as a device: on 127.0.0.1, at a free port, with keys of its own; and a proxy that cuts it off."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Sshd:
    """A running server.

    known_hosts  the file with its key
    key          a private key that it accepts
    folder       the folder on the device for files and jobs
    """

    port: int
    known_hosts: Path
    key: Path
    folder: Path

    @property
    def address(self) -> str:
        return self.at(self.port)

    def at(self, port: int, **options: object) -> str:
        """Return the address at another port, and with other options."""
        given = {"key": self.key, "known_hosts": self.known_hosts, "folder": self.folder, **options}
        query = "&".join(f"{name}={each}" for name, each in given.items())
        return f"ssh://{getpass.getuser()}@127.0.0.1:{port}?{query}"


@contextmanager
def started(folder: Path, within: Sequence[str] = ()) -> Iterator[Sshd]:
    """Yield a server whose files are in a folder. `within`: a command that starts it."""
    program = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None or shutil.which("ssh") is None:
        pytest.skip("not run: needs OpenSSH's server and client (openssh-server, openssh-client)")
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    host_key, key = folder / "host_key", folder / "key"
    for path in (host_key, key):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    port = free_port()
    accepted = folder / "authorized_keys"
    accepted.write_bytes(key.with_suffix(".pub").read_bytes())
    known_hosts = folder / "known_hosts"
    public = " ".join(host_key.with_suffix(".pub").read_text().split()[:2])
    known_hosts.write_text(f"[127.0.0.1]:* {public}\n")
    config = folder / "sshd_config"
    lines = [
        "ListenAddress 127.0.0.1",
        f"Port {port}",
        f"HostKey {host_key}",
        f"AuthorizedKeysFile {accepted}",
        "PidFile none",
        "StrictModes no",
        "UsePAM no",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "PermitRootLogin prohibit-password",
        "MaxStartups 100",
    ]
    config.write_text("\n".join(lines) + "\n")
    with (folder / "sshd.log").open("wb") as log:
        server = subprocess.Popen([*within, program, "-D", "-e", "-f", str(config)], stderr=log, start_new_session=True)
    try:
        wait_for(lambda: accepts(port), "sshd does not start: " + (folder / "sshd.log").read_text())
        yield Sshd(port, known_hosts, key, folder / "device")
    finally:
        server.terminate()
        server.wait(10)


class Proxy:
    """A TCP proxy that forwards connections until a number of bytes went through it, both ways together; then it cuts
    all of them, and refuses others.

    silent  True: it forwards nothing more, but keeps the connections open
    """

    def __init__(self, port: int, cut_after: int | None = None, silent: bool = False) -> None:
        self._target = port
        self._left = cut_after
        self._silent = silent
        self.seen = 0
        self.was_cut = threading.Event()
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """End all connections, and accept no others."""
        self.was_cut.set()
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        if not self._silent:
            self._close()

    def close(self) -> None:
        self.cut()
        self._close()

    def _close(self) -> None:
        with self._lock:
            ends, self._open = self._open, []
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                here, _ = self._server.accept()
                there = socket.create_connection(("127.0.0.1", self._target))
                with self._lock:
                    self._open += [here, there]
                for source, sink in ((here, there), (there, here)):
                    threading.Thread(target=self._forward, args=(source, sink), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(4096):
                with self._lock:
                    self.seen += len(data)
                    over = self._left is not None and self.seen > self._left
                if over or self.was_cut.is_set():
                    self.cut()
                    return
                sink.sendall(data)
        if not self._silent:
            with suppress(OSError):
                sink.shutdown(socket.SHUT_WR)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def accepts(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def wait_for(happened: object, problem: str, seconds: float = 20) -> None:
    """Wait until a function returns something true; fail with the problem after `seconds`."""
    assert callable(happened)
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, problem
        time.sleep(0.05)


def running(marker: str) -> list[int]:
    """Return the processes whose command line contains a text, apart from this one."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and marker in (entry / "cmdline").read_bytes().decode(errors="replace"):
                found.append(int(entry.name))
    return [pid for pid in found if pid != os.getpid()]


def children(name: str) -> list[int]:
    """Return the children of this process that run a program of this name."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit():
                # PID (NAME) STATE PARENT ...
                own, _, rest = (entry / "stat").read_text().rpartition(")")
                if own.partition("(")[2] == name and int(rest.split()[1]) == os.getpid():
                    found.append(int(entry.name))
    return found
