"""Faults of devices: each is one clear line; nothing hangs, no result is wrong, and nothing is left locked."""

from __future__ import annotations

import io
import os
import random
import shutil
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from modelbuild.device_runners import DeviceRunner, parse_address
from modelbuild.devices.device import Device, LocalFile
from modelbuild.devices.facts import parse
from modelbuild.devices.outputs import unpack
from modelbuild.devices.problems import DeviceProblem, JobProblem
from tests.devices.sshd import Proxy, Sshd, free_port, running, started, wait_for

File = Callable[..., LocalFile]
SLEEP = f"86322.{os.getpid()}"  # of this process of tests alone: others run beside it
HANGS = 200  # seconds; on a busy machine, each of a dozen connections takes seconds


def hush(text: str) -> None:
    """Do nothing."""


def problem_of(address: str) -> str:
    with pytest.raises(DeviceProblem) as caught:
        Device(parse_address(address))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_host_without_a_known_key_is_refused(server: Sshd, tmp_path: Path) -> None:
    nobody = tmp_path / "known_hosts"
    nobody.write_text("")
    assert problem_of(server.at(server.port, known_hosts=nobody)).startswith("the host's key is not known; expected it")


def test_a_host_with_another_key_is_refused(server: Sshd, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "other")], check=True)
    others = tmp_path / "known_hosts"
    others.write_text(f"[127.0.0.1]:{server.port} {(tmp_path / 'other.pub').read_text()}")
    assert problem_of(server.at(server.port, known_hosts=others)).startswith("the host's key differs from the one in ")


def test_a_key_that_the_device_refuses(server: Sshd, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "other")], check=True)
    assert problem_of(server.at(server.port, key=tmp_path / "other")).startswith("the device refuses the key of ")
    missing = tmp_path / "none"
    assert problem_of(server.at(server.port, key=missing)) == f"the key {missing} cannot be read; expected a file"


def test_a_host_that_is_not_there(server: Sshd) -> None:
    assert problem_of(server.at(free_port())) == "nothing accepts connections on this port"
    assert problem_of("ssh://no-such-host.invalid") == "no host of this name"


def test_a_jump_host_that_refuses(server: Sshd, tmp_path: Path) -> None:
    gone = f"127.0.0.1:{free_port()}"
    assert problem_of(server.at(server.port, jump=gone)) == "nothing accepts connections on this port"
    unknown = problem_of(server.at(server.port, jump=f"localhost:{server.port}"))
    assert unknown == f"the host's key is not known; expected it in {server.known_hosts} (`ssh-keyscan` prints it)"


def job(device: Device, file: File, folder: Path) -> str:
    """Run a job whose right output is known; return its output."""
    script = file("cat data/in | wc -c; echo right")
    with device.session("//:t", 20, hush) as session:
        session.put({"run": script, "data/in": file(b"7" * 200_000)})
        assert session.run("one", ["./run"], 20).status == 0
        session.get(folder)
    return (folder / "one/stdout").read_text()


def cut_job(address: str, file: File, folder: Path) -> str:
    """Run the job; return the problem that ended it. If none did, the output must be right."""
    try:
        device = Device(parse_address(address))
    except DeviceProblem as problem:
        return str(problem)
    try:
        assert job(device, file, folder) == "200000\nright\n"
    except DeviceProblem as problem:
        return str(problem)
    finally:
        device.close()
    return ""


def sleep_there(device: Device, file: File, before: Callable[[], object]) -> None:
    """Run a program that sleeps for days, after `before`."""
    with device.session("//:t", 5, hush) as session:
        session.put({"run": file(f"sleep {SLEEP} & setsid sleep {SLEEP}")})
        before()
        session.run("one", ["./run"], 300)


SEEDS = [*range(2), *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(2, 50))]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_connection_that_is_cut_leaves_no_lock_and_no_wrong_result(
    server: Sshd, file: File, tmp_path: Path, seed: int
) -> None:
    """A job's connections carry about 260 kB; 6 kB of them before the first file."""
    remote = tmp_path / "device"
    proxy = Proxy(server.port, random.Random(seed).randrange(3_000, 290_000))
    began = time.monotonic()
    problem = cut_job(server.at(proxy.port, folder=remote), file, tmp_path / "cut")
    proxy.close()
    assert "\n" not in problem
    assert proxy.was_cut.is_set() or not problem
    assert time.monotonic() - began < HANGS
    # Another one gets the lock, and every file in the store is whole.
    device = Device(parse_address(server.at(server.port, folder=remote)))
    try:
        assert job(device, file, tmp_path / "whole") == "200000\nright\n"
    finally:
        device.close()
    assert not list(remote.glob("jobs/*"))


def test_a_program_ends_when_its_connection_is_cut(server: Sshd, file: File, tmp_path: Path) -> None:
    proxy = Proxy(server.port)
    device = Device(parse_address(server.at(proxy.port, folder=tmp_path / "device")))
    with pytest.raises(DeviceProblem, match="the connection was lost"):
        sleep_there(device, file, threading.Timer(1.0, proxy.cut).start)
    device.close()
    wait_for(lambda: not running(SLEEP), "the program still runs")


@pytest.mark.exhaustive
def test_a_connection_that_falls_silent_ends_the_job_on_both_sides(server: Sshd, file: File, tmp_path: Path) -> None:
    """As after a cable is pulled: neither side learns of it."""
    proxy = Proxy(server.port, silent=True)
    device = Device(parse_address(server.at(proxy.port, folder=tmp_path / "device")))
    began = time.monotonic()
    with pytest.raises(DeviceProblem):
        sleep_there(device, file, proxy.cut)
    device.close()
    assert time.monotonic() - began < HANGS
    wait_for(lambda: not running(SLEEP), "the program still runs", seconds=40)
    other = Device(parse_address(server.at(server.port, folder=tmp_path / "device")))
    with other.session("//:t", 40, hush):
        proxy.close()
    other.close()


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Device]:
    """Yield a device with a disk of 200 KiB."""
    if shutil.which("bwrap") is None:
        pytest.skip("not run: needs bubblewrap, which makes a small disk")
    folder = tmp_path / "device"
    folder.mkdir()
    view = ["--bind", "/", "/", "--dev-bind", "/dev", "/dev", "--size", str(200 << 10), "--tmpfs", str(folder)]
    with started(tmp_path, within=["bwrap", "--die-with-parent", *view]) as server:
        device = Device(parse_address(server.address))
        yield device
        device.close()


def test_a_full_disk_is_one_line_and_leaves_nothing(small: Device, file: File) -> None:
    for _ in range(2):
        with small.session("//:t", 5, hush) as session, pytest.raises(JobProblem) as caught:
            session.put({"small": file(b"s"), "large": file(b"x" * (1 << 20))})
        assert str(caught.value) == "the disk of the device is full, or a quota is; expected more space"
    with small.session("//:t", 5, hush) as session:
        session.put({"small": file(b"s"), "run": file("cat small")})
        assert session.run("one", ["./run"], 20).status == 0


def test_files_of_earlier_jobs_make_room_on_a_full_disk(small: Device, file: File, tmp_path: Path) -> None:
    shared = file(b"s" * 20_000)
    for number in range(4):
        with small.session("//:t", 5, hush) as session:
            session.put({"shared": shared, "own": file(b"%d" % number * 60_000), "run": file("cat shared own | wc -c")})
            sent = session.sent
            session.run("one", ["./run"], 20)
            session.get(tmp_path / f"{number}")
        assert (tmp_path / f"{number}/one/stdout").read_text() == "80000\n"
        assert sent.there == (0 if number == 0 else 2)  # those of this job were kept


# -- a hostile device ------------------------------------------------------------------------------------------------

LOCAL = DeviceRunner("local:", "local")
FACTS = [
    ("arch\tx86_64\nevil\t1\n", "the device states 'evil\\t1'; expected facts about itself"),
    ("arch\tx86_64\n\x1b[31mred\n", "the device states '\\x1b[31mred'; expected facts about itself"),
    ("arch\tx86_64\nmodel\t" + "x" * 300, "expected facts about itself"),
    ("", "the device does not state its architecture; expected a Linux with a POSIX shell"),
    ("arch\tx86_64\nlacks\tflock\n", "the device has no flock; expected tar, sha256sum, flock, timeout and setsid"),
]


@pytest.mark.parametrize(("text", "problem"), FACTS)
def test_a_device_that_states_nonsense(text: str, problem: str) -> None:
    with pytest.raises(DeviceProblem) as caught:
        parse(text, LOCAL)
    assert problem in str(caught.value)


def test_numbers_of_a_device_are_checked() -> None:
    found = parse("arch\tx86_64\nfree\t99999999999999999999999\nmemory\t-3\n", LOCAL)
    assert (found.free, found.memory) == (-1, -1)


def archive(*entries: Any) -> io.BytesIO:
    """Return a tar of (name, content) pairs; a tuple as the content is a type, and a link's destination."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.GNU_FORMAT) as packed:
        for name, content in entries:
            entry = tarfile.TarInfo(name)
            if isinstance(content, tuple):
                entry.type, entry.linkname = content
                packed.addfile(entry)
            else:
                entry.size = len(content)
                packed.addfile(entry, io.BytesIO(content))
    made.seek(0)
    return made


HOSTILE: list[tuple[Callable[[], io.BytesIO], str]] = [
    (lambda: archive(("../x", b"")), "the device sent a file called '../x'; expected a plain name"),
    (lambda: archive(("/etc/x", b"")), "the device sent a file called '/etc/x'"),
    (lambda: archive(("a/../../x", b"")), "expected a plain name"),
    (lambda: archive(("a/.hidden", b"")), "expected a plain name"),
    (lambda: archive(("a\nb", b"")), "the device sent a file called 'a\\nb'"),
    (lambda: archive(("a" * 300, b"")), "expected a plain name"),
    (lambda: archive(("a/b/c/d/e/f/g/h/i", b"")), "expected a plain name"),
    (lambda: archive(("a", b"1"), ("a", b"2")), "the device sent 'a' twice; expected it once"),
    (lambda: archive(("a", b"1"), ("a/b", b"2")), "the device sent 'a' twice; expected it once"),
    (lambda: archive(("a", b"x" * 2000)), "the device sent outputs of more than 1000 bytes; expected less"),
    (lambda: archive(*((f"f{n}", b"") for n in range(21))), "more than 20 files; expected the outputs"),
    (lambda: io.BytesIO(b"no archive" * 100), "the device sent no readable outputs"),
    (lambda: io.BytesIO(archive(("a", b"x" * 900)).getvalue()[:700]), "the device sent no readable outputs"),
]


@pytest.mark.parametrize(("make", "problem"), HOSTILE)
def test_outputs_of_a_hostile_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[], io.BytesIO], problem: str
) -> None:
    monkeypatch.setattr("modelbuild.devices.outputs.MOST_FILES", 20)
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(JobProblem) as caught:
        unpack(make(), folder, 1000, hush)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_links_and_devices_among_outputs_are_skipped(tmp_path: Path) -> None:
    said: list[str] = []
    given = archive(("link", (tarfile.SYMTYPE, "/etc/passwd")), ("hard", (tarfile.LNKTYPE, "/etc/passwd")), ("a", b"1"))
    unpack(given, tmp_path, 1000, said.append)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert said == ["outputs that are no plain files were skipped: 2, such as link"]


def test_a_program_cannot_fill_this_machine(server: Sshd, file: File, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("modelbuild.devices.device.MOST_OUTPUT", 1 << 20)
    device = Device(parse_address(server.at(server.port, folder=tmp_path / "device")))
    with device.session("//:t", 5, hush) as session:
        session.put({"run": file("yes")})
        ended = session.run("one", ["./run"], 20)
        assert ended.status == 128 + 25, "SIGXFSZ"
        with pytest.raises(JobProblem, match="more than 1048576 bytes; expected less"):
            session.get(tmp_path / "outputs")
    device.close()


KILLED = """
import sys
from modelbuild.device_runners import parse_address
from modelbuild.devices.device import Device, local_file
from pathlib import Path

with Device(parse_address(sys.argv[1])).session("//:t", 5, print) as session:
    session.put({"run": local_file(Path(sys.argv[2]))})
    session.run("one", ["./run"], 300)
"""


@pytest.mark.parametrize("kind", ["ssh", "local"])
def test_a_build_that_is_killed_leaves_no_process_here_or_there(
    server: Sshd, file: File, tmp_path: Path, kind: str
) -> None:
    folder = tmp_path / "device"
    address = server.at(server.port, folder=folder) if kind == "ssh" else f"local:?folder={folder}"
    marker = f" -p {server.port} ".replace(" ", "\0") if kind == "ssh" else str(folder)
    program = file(f"sleep {SLEEP} & setsid sleep {SLEEP}").path
    build = subprocess.Popen([sys.executable, "-c", KILLED, address, program], cwd=Path(__file__).parents[2])
    wait_for(lambda: running(SLEEP), "the program does not start")
    connections = [pid for pid in running(marker) if _is_of(pid, build.pid)]
    assert connections
    build.kill()
    build.wait()
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in connections), "a connection is left open")
    wait_for(lambda: not running(SLEEP), "the program still runs")
    device = Device(parse_address(address))
    with device.session("//:next", 10, hush):
        pass
    device.close()


def _is_of(pid: int, parent: int) -> bool:
    """Return whether a process is a child of another."""
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) == parent
    return False
