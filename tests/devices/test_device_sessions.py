"""A device over ssh, locally and emulated: files by content, programs, outputs, the lock, and what is left there."""

from __future__ import annotations

import getpass
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from modelbuild.device_runners import parse_address
from modelbuild.devices.device import Device, DeviceSession, LocalFile
from modelbuild.devices.problems import DeviceProblem, JobProblem
from tests.devices.sshd import Proxy, Sshd, running, wait_for

File = Callable[..., LocalFile]
SLEEP = f"86321.{os.getpid()}"  # seconds; of this process of tests alone: others run beside it


@pytest.fixture(params=["ssh", "local"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the address of a device of each kind, with a folder of its own."""
    if request.param == "ssh":
        server: Sshd = request.getfixturevalue("server")
        return server.at(server.port, folder=tmp_path / "device")
    return f"local:?folder={tmp_path / 'device'}"


@pytest.fixture
def device(address: str) -> Iterator[Device]:
    """Yield a device of each kind."""
    found = Device(parse_address(address))
    yield found
    found.close()


@pytest.fixture
def server_device(server: Sshd, tmp_path: Path) -> Iterator[Device]:
    """Yield a device over ssh."""
    found = Device(parse_address(server.at(server.port, folder=tmp_path / "device")))
    yield found
    found.close()


def hush(text: str) -> None:
    """Do nothing."""


def test_a_job_gets_its_files_and_returns_its_outputs(device: Device, file: File, tmp_path: Path) -> None:
    script = file('echo "$1"; echo oops >&2; cat data/in >out/one/result; exit 3')
    with device.session("//:t", 5, hush) as session:
        session.put({"bin/run": script, "data/in": file(b"\0\1\2")})
        ended = session.run("one", ["bin/run", "a b'\"$HOME"], 20)
        session.get(tmp_path / "outputs")
    assert (ended.status, ended.timed_out) == (3, False)
    outputs = {path.name: path.read_bytes() for path in (tmp_path / "outputs/one").iterdir()}
    assert outputs == {"stdout": b"a b'\"$HOME\n", "stderr": b"oops\n", "result": b"\0\1\2"}


@pytest.mark.parametrize("hops", [1, 2])
def test_jump_hosts_get_the_key_and_the_known_hosts_of_the_runner(
    server: Sshd, file: File, tmp_path: Path, hops: int
) -> None:
    """Proxies of one server stand for other machines; OpenSSH refuses a host that is its own jump host."""
    proxies = [Proxy(server.port) for _ in range(hops)]
    jump = ",".join(f"{getpass.getuser()}@127.0.0.1:{each.port}" for each in proxies)
    device = Device(parse_address(server.at(server.port, folder=tmp_path / "device", jump=jump)))
    with device.session("//:t", 5, hush) as session:
        session.put({"run": file("echo there")})
        session.run("one", ["./run"], 20)
        session.get(tmp_path / "outputs")
    device.close()
    assert (tmp_path / "outputs/one/stdout").read_text() == "there\n"
    assert all(each.seen > 1000 for each in proxies)
    for each in proxies:
        each.close()


def test_an_agent_gives_the_key(server: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    socket = tmp_path / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    try:
        wait_for(socket.exists, "the agent does not start")
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
        subprocess.run(["ssh-add", "-q", str(server.key)], check=True)
        Device(parse_address(server.at(server.port, key=""))).close()
    finally:
        agent.terminate()
        agent.wait(10)


def test_files_on_a_device_are_not_sent_again(server_device: Device, file: File, tmp_path: Path) -> None:
    files = {"a": file(b"1" * 512 * 200), "b": file(b"2"), "c/d": file(b"2"), "e": file(b"3")}
    sent = []
    for _ in range(2):
        with server_device.session("//:t", 5, hush) as session:
            session.put(files)
            sent.append((session.sent.files, session.sent.bytes, session.sent.there))
    assert sent == [(3, 102_402, 0), (0, 0, 3)]


def test_a_damaged_file_on_the_device_is_sent_again(server_device: Device, file: File, tmp_path: Path) -> None:
    given = file("echo right")
    for damage in (b"#!/bin/sh\necho wrong\n", None):
        with server_device.session("//:t", 5, hush) as session:
            session.put({"run": given})
            session.run("one", ["./run"], 20)
            folder = tmp_path / f"outputs{damage!r}"
            session.get(folder)
        assert (folder / "one/stdout").read_text() == "right\n"
        blob = tmp_path / "device/blobs" / given.digest
        blob.chmod(0o700)
        blob.unlink()
        if damage is not None:
            blob.write_bytes(damage)
            blob.chmod(0o500)


def test_the_store_is_capped_and_the_oldest_files_go_first(file: File, tmp_path: Path) -> None:
    device = Device(replace(parse_address(f"local:?folder={tmp_path / 'device'}"), store_size=250))
    try:
        for number in range(4):
            with device.session("//:t", 5, hush) as session:
                session.put({"used": file(b"u" * 100), "new": file(b"%d" % number * 100)})
            time.sleep(0.02)
        kept = {path.name for path in (tmp_path / "device/blobs").iterdir()}
        assert kept == {file(b"u" * 100).digest, file(b"3" * 100).digest}
        with device.session("//:t", 5, hush) as session, pytest.raises(JobProblem, match="has 251 bytes; expected at"):
            session.put({"large": file(b"x" * 251)})
    finally:
        device.close()


def test_a_program_that_takes_too_long_ends_with_all_its_processes(device: Device, file: File) -> None:
    script = file(f"sleep {SLEEP} & setsid sleep {SLEEP} & trap '' TERM; sleep {SLEEP}; sleep {SLEEP}")
    with device.session("//:t", 5, hush) as session:
        session.put({"run": script})
        ended = session.run("one", ["./run"], 1)
        assert ended.timed_out
        assert ended.seconds < 15
        assert running(SLEEP) == []


def test_a_job_leaves_nothing_on_the_device(server_device: Device, file: File, tmp_path: Path) -> None:
    script = file(f"setsid sleep {SLEEP} & mkdir -p out/one/x; echo 1 >out/one/x/y; chmod 0 out/one/x")
    with server_device.session("//:t", 5, hush) as session:
        session.put({"run": script})
        assert session.run("one", ["./run"], 20).status == 0
        assert running(SLEEP) == []
    assert sorted(path.name for path in (tmp_path / "device").iterdir()) == ["CACHEDIR.TAG", "blobs", "lock", "owner"]
    assert (tmp_path / "device/owner").read_text() == ""


STATES = [
    ("0, 61, 1300\n1, [N/A], 1200\n", {"temperature.gpu0": 61.0, "clock.gpu0": 1300.0, "clock.gpu1": 1200.0}),
    ("0, nan, inf\n1, 1e999, -9999999\n", {}),
    ("\x1b[31m, 1, 1\n; rm -rf x, 2\n" + "9" * 100 + ", 3, 3\n", {}),
]


@pytest.mark.parametrize(("printed", "expected"), STATES)
def test_the_temperatures_and_clocks_of_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: str, expected: dict[str, float]
) -> None:
    """An nvidia-smi in PATH stands for a GPU. Sensors of this machine are in /sys, which may have none."""
    (tmp_path / "printed").write_text(printed)
    program = tmp_path / "bin/nvidia-smi"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ncat {tmp_path}/printed\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    device = Device(parse_address(f"local:?folder={tmp_path / 'device'}"))
    with device.session("//:t", 5, hush) as session:
        found = session.state()
    assert {name: value for name, value in found.items() if ".gpu" in name} == expected
    assert all(-1e6 < value < 1e6 for value in found.values())


def test_a_second_job_waits_and_says_for_whom(address: str) -> None:
    first, second = (Device(parse_address(address)) for _ in range(2))
    said: list[str] = []
    got: list[float] = []

    def work() -> None:
        with second.session("//:second", 30, said.append):
            got.append(time.monotonic())

    try:
        with first.session("//:first", 5, hush):
            other = threading.Thread(target=work)
            other.start()
            wait_for(lambda: said, "the second session does not wait")
            time.sleep(0.3)
            left = time.monotonic()
        other.join(20)
    finally:
        first.close()
        second.close()
    assert got
    assert got[0] > left
    assert len(said) == 1
    assert "for //:first; waiting up to 30 s" in said[0]


def test_a_wait_in_vain_ends_with_one_line(address: str) -> None:
    first, second = (Device(parse_address(address)) for _ in range(2))
    try:
        with first.session("//:first", 5, hush):
            with pytest.raises(DeviceProblem, match="for //:first for more than 1 s; expected it free"):
                second.session("//:second", 1, hush).__enter__()
            third = Device(parse_address(address))
            third.close()
            assert "//:first" in (third.facts.owner or "")
        with second.session("//:second", 1, hush):
            pass
    finally:
        first.close()
        second.close()


def test_the_lock_is_free_after_its_owner_was_killed(address: str, file: File) -> None:
    """Nobody compares clocks: the kernel frees the lock, and the next owner ends what the last one left."""
    device = Device(parse_address(address))
    script = file(f"sleep {SLEEP}")
    context = device.session("//:killed", 5, hush)
    session: DeviceSession = context.__enter__()
    session.put({"run": script})
    threading.Thread(target=_ignore, args=(session,), daemon=True).start()
    wait_for(lambda: running(SLEEP), "the program does not start")
    for pid in running(session.token):
        _kill(pid)
    other = Device(parse_address(address))
    with other.session("//:next", 10, hush):
        assert running(SLEEP) == []
    other.close()
    device.close()


def _ignore(session: DeviceSession) -> None:
    with pytest.raises(DeviceProblem):
        session.run("one", ["./run"], 60)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
