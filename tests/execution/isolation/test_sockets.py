"""No code of an action without a network reaches a socket of another process, of any family."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

STREAM, DATAGRAM = int(socket.SOCK_STREAM), int(socket.SOCK_DGRAM)

# Connects to each of PLACES by native code in its own process, and by a program; returns those that succeeded.
REACH = """
    import ctypes, json, os, socket, subprocess
    libc = ctypes.CDLL(None)
    PERL = '''
        use Socket;
        my ($family, $kind, $address) = (@ARGV[0, 1], pack("H*", $ARGV[2]));
        socket(my $socket, $family, $kind, 0) or exit 1;
        exit !($kind == SOCK_DGRAM ? send($socket, "x", 0, $address) : connect($socket, $address));
    '''
    def native(family, kind, address):
        made = libc.socket(family, kind, 0)
        if kind == socket.SOCK_DGRAM:
            return libc.sendto(made, b"x", 1, 0, address, len(address)) == 1
        return libc.connect(made, address, len(address)) == 0
    def run(step):
        found = []
        for family, kind, address in PLACES:
            program = subprocess.run(["perl", "-e", PERL, str(family), str(kind), address])
            found.append([native(family, kind, bytes.fromhex(address)), program.returncode == 0])
        step.outputs["out"].write_text(json.dumps(found))
"""


class Server:
    """Listens at `places`: families, kinds and addresses as C has them."""

    def __init__(self, *folders: Path) -> None:
        self._sockets: list[socket.socket] = []
        self.places: list[tuple[int, int, str]] = []
        abstract = f"\0modelbuild-test-{os.getpid()}"
        for kind in (STREAM, DATAGRAM):
            for name in (abstract, *(f"{folder}/s" for folder in folders)):
                self._listen(socket.AF_UNIX, kind, f"{name}{kind}", f"{name}{kind}".encode())
            port = self._listen(socket.AF_INET, kind, ("127.0.0.1", 0), b"")[1]
            self._place(socket.AF_INET, kind, port.to_bytes(2, "big") + socket.inet_aton("127.0.0.1") + bytes(8))

    def _listen(self, family: int, kind: int, address: Any, name: bytes) -> Any:
        made = socket.socket(family, kind)
        self._sockets.append(made)
        made.bind(address)
        made.setblocking(False)
        if kind == STREAM:
            made.listen()
        if name:
            self._place(family, kind, name)
        return made.getsockname()

    def _place(self, family: int, kind: int, rest: bytes) -> None:
        self.places.append((int(family), kind, (int(family).to_bytes(2, "little") + rest).hex()))

    def heard(self) -> int:
        """Accept all pending connections, and count them."""
        count = 0
        for each in self._sockets:
            try:
                while True:
                    each.accept() if each.type == STREAM else each.recv(10)
                    count += 1
            except BlockingIOError:
                continue
        return count

    def close(self) -> None:
        for each in self._sockets:
            each.close()


@pytest.fixture
def server(workspace: Any, tmp_path: Path) -> Iterator[Server]:
    """Sockets in the workspace and elsewhere."""
    (tmp_path / "run").mkdir()
    made = Server(tmp_path / "run", workspace.root)
    yield made
    made.close()


def test_native_code_reaches_nobody(workspace: Any, server: Server) -> None:
    found = workspace.probe(REACH.replace("PLACES", json.dumps(server.places)))
    assert found == [[False, False]] * len(server.places)
    assert server.heard() == 0


def test_with_a_network_it_does(workspace: Any, server: Server) -> None:
    reached = [place for place in server.places if not _abstract(place)]
    found = workspace.probe(REACH.replace("PLACES", json.dumps(reached)), network=True)
    assert found == [[True, True]] * len(reached)
    assert server.heard() == 2 * len(reached)


def _abstract(place: tuple[int, int, str]) -> bool:
    """Landlock, if the kernel's version can, refuses these even to an action with a network."""
    return place[0] == socket.AF_UNIX and place[2][4:6] == "00"


# Listens on all possible sockets for the duration of CALLS, and returns those with a connection.
LISTENS = """
    import json, socket, time
    NAMES = ("\\0modelbuild-test", "/dev/shm/modelbuild-test", "/tmp/modelbuild-test", ".home/socket")
    def run(step):
        listening = {}
        for name in NAMES:
            try:
                server = socket.socket(socket.AF_UNIX)
                server.bind(name)
            except OSError:
                continue
            server.listen()
            server.setblocking(False)
            listening[name] = server
        time.sleep(3)
        found = []
        for name, server in listening.items():
            try:
                server.accept()
                found.append(name)
            except BlockingIOError:
                continue
        step.outputs["out"].write_text(json.dumps(found))
"""

# Calls all that LISTENS may listen at, in whichever folder that runs.
CALLS = """
    import socket, time
    NAMES = ("\\0modelbuild-test", "/dev/shm/modelbuild-test", "/tmp/modelbuild-test")
    def run(step):
        time.sleep(1.5)
        for name in (*NAMES, *(f"../{number}/.home/socket" for number in range(4))):
            try:
                socket.socket(socket.AF_UNIX).connect(name)
            except OSError:
                continue
        step.outputs["out"].write_text("1")
"""


def test_actions_do_not_reach_each_other(workspace: Any) -> None:
    for name, source in (("listens", LISTENS), ("calls", CALLS)):
        workspace.step(name, source)
        workspace.target(name, name)
    done = workspace.build_all("--jobs=2")
    assert done.code == 0, done.err
    assert workspace.value("listens") == []


def test_nothing_else_makes_sockets(workspace: Any) -> None:
    """No other family of sockets, and no io_uring, whose sockets no system call filter sees."""
    families = [int(family) for family in socket.AddressFamily if family != socket.AF_UNIX]
    source = f"""
        import ctypes, json
        def run(step):
            libc = ctypes.CDLL(None)
            kinds = (1, 2, 3, 5)
            made = [[family, kind] for family in {families} for kind in kinds if libc.socket(family, kind, 0) >= 0]
            made += ["io_uring"] if libc.syscall(425, 8, ctypes.create_string_buffer(120)) >= 0 else []
            step.outputs["out"].write_text(json.dumps(made))
    """
    assert workspace.probe(source) == []


def test_a_pair_of_sockets_needs_no_place(workspace: Any) -> None:
    source = """
        import asyncio, socket
        async def two():
            return 2
        def run(step):
            one, other = socket.socketpair()
            one.sendall(b"1")
            step.outputs["out"].write_text(other.recv(1).decode() + str(asyncio.run(two())))
    """
    assert workspace.probe(source) == 12


def test_python_code_is_told_so(workspace: Any) -> None:
    workspace.step("datagram", "import socket\ndef run(step):\n    socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n")
    workspace.step("by_name", "import socket\ndef run(step):\n    socket.create_connection(('localhost', 80))\n")
    for name in ("datagram", "by_name"):
        workspace.target(name, name)
    said = workspace.build_all().err
    assert "step probe.steps.datagram uses the network (no network here); declare the file with an http_file" in said
    assert "step probe.steps.by_name uses the network (no network here: localhost:80); declare the file" in said


def test_processes_of_one_action_talk_where_the_kernel_keeps_them_apart(workspace: Any) -> None:
    """Otherwise they are refused, and the error refers to `modelbuild info sandbox`."""
    workspace.step(
        "talks",
        """
        import os, socket, tempfile
        def run(step):
            os.chdir(tempfile.gettempdir())  # a socket's path has at most 107 bytes
            place = "socket"
            server = socket.socket(socket.AF_UNIX)
            server.bind(place)
            server.listen()
            if os.fork() == 0:
                socket.socket(socket.AF_UNIX).connect(place)
                os._exit(0)
            server.accept()
            step.outputs["out"].write_text("1")
        """,
    )
    workspace.target("talks", "talks")
    done = workspace.build_all()
    if workspace.namespaces:
        assert done.code == 0, done.err
    else:
        assert "Permission denied (this machine gives actions neither Unix sockets nor" in done.err
