"""One device: its facts, an exclusive session with it, and jobs in that session."""

from __future__ import annotations

import getpass
import hashlib
import os
import secrets
import socket
import subprocess
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from modelbuild.device_runners import DeviceRunner
from modelbuild.devices import scripts
from modelbuild.devices.exchange import ExchangeLimits, call, exchange
from modelbuild.devices.facts import Facts, ask
from modelbuild.devices.outputs import MOST_FILES, unpack
from modelbuild.devices.problems import Busy, ConnectionLost, DeviceProblem, DiskFull, JobProblem, cut
from modelbuild.devices.shells import Shell, end, open_shell

# Seconds: between two signs of life of a session, the silence after which the device ends it, and the time that a job
# may take in addition to its own limit.
_BEAT = 4
_SILENCE = 20
_GRACE = 30

# Bytes of all outputs of a job, and of one file that its program writes.
MOST_OUTPUT = 1 << 30


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file of this machine, with its SHA-256."""

    path: Path
    digest: str
    size: int


def local_file(path: Path) -> LocalFile:
    """Return a file of this machine with its digest."""
    with path.open("rb") as file:
        return LocalFile(path, hashlib.file_digest(file, "sha256").hexdigest(), path.stat().st_size)


@dataclass(frozen=True, slots=True)
class EndedRun:
    """The end of a program on a device: its exit status as a shell reports it, and whether it reached its time
    limit."""

    status: int
    seconds: float
    timed_out: bool


@dataclass(slots=True)
class Sent:
    """The number of files and bytes that were sent to a device, and the number of files that it already had."""

    files: int = 0
    bytes: int = 0
    there: int = 0


@dataclass(slots=True)
class DeviceSession:
    """Exclusive use of a device until the session ends. Made by `Device.session`."""

    shell: Shell
    runner: DeviceRunner
    facts: Facts
    token: str
    sent: Sent = field(default_factory=Sent)

    def put(self, files: Mapping[str, LocalFile]) -> None:
        """Lay out files, by path, in the job's folder. Contents that the device has are not sent.

        If the disk is full, the files of earlier jobs are removed. Raises JobProblem if the files are larger than the
        device's store may be, or if its disk is full without other files.
        """
        unique = {each.digest: each for each in files.values()}
        total = sum(each.size for each in unique.values())
        if total > self.runner.store_size:
            raise JobProblem(f"the job has {total} bytes; expected at most {self.runner.store_size} (store_size)")
        try:
            self._lay_out(files, unique)
        except DiskFull:
            call(self.shell, scripts.KEEP, self.runner.folder, feed=_lines(unique))
            self._lay_out(files, unique)

    def _lay_out(self, files: Mapping[str, LocalFile], unique: Mapping[str, LocalFile]) -> None:
        limits = ExchangeLimits(output=len(unique) * 65 + 64)
        answer = call(self.shell, scripts.MISSING, self.runner.folder, feed=_lines(unique), limits=limits).split()
        missing = [unique[digest] for digest in dict.fromkeys(answer) if digest in unique]
        size = sum(each.size for each in missing)
        self.sent = Sent(len(missing), size, len(unique) - len(missing))
        if missing:
            limits = ExchangeLimits(seconds=600 + size / 100_000)
            call(self.shell, scripts.RECEIVE, self.runner.folder, self.token, feed=_packed(missing), limits=limits)
        places = _lines(f"{each.digest} {path}" for path, each in files.items())
        most = str(self.runner.store_size)
        call(self.shell, scripts.STAGE, self.runner.folder, self.token, most, feed=places)

    def run(self, name: str, command: Sequence[str], seconds: float) -> EndedRun:
        """Run a program of the job's folder, with that folder as the current folder. Its standard output and error are
        the files `NAME/stdout` and `NAME/stderr` of the outputs, and `out/NAME` is its own folder for other outputs."""
        blocks = str(MOST_OUTPUT // 512)
        arguments = (self.runner.folder, self.token, name, f"{max(1, round(seconds))}", blocks, *command)
        limits = ExchangeLimits(seconds + _GRACE, seconds + _GRACE)
        began = time.monotonic()
        printed = call(self.shell, scripts.RUN, *arguments, limits=limits).strip()
        took = time.monotonic() - began
        if not printed.isdecimal() or len(printed) > 3:
            raise JobProblem(f"the device states the exit status '{cut(printed)[:40]}'; expected a number")
        # 124 is the status of `timeout`, and 137 if it had to kill the program.
        return EndedRun(int(printed), took, int(printed) in (124, 137) and took >= round(seconds))

    def get(self, folder: Path, note: Callable[[str], None] = lambda text: None) -> int:
        """Write the outputs of the job into an empty folder. Returns their number. Raises JobProblem for outputs that
        break the rules: see outputs.unpack()."""
        with tempfile.TemporaryFile() as archive:
            most = MOST_OUTPUT + MOST_FILES * 2048
            started = self.shell.start(scripts.OUTPUTS, self.runner.folder, self.token)
            exchange(self.shell, started, archive.write, (), ExchangeLimits(600 + MOST_OUTPUT / 1e6, output=most))
            archive.seek(0)
            return unpack(archive, folder, MOST_OUTPUT, note)

    def state(self) -> dict[str, float]:
        """Return temperatures (degrees Celsius) and clocks (MHz) by name; empty if they cannot be read."""
        found: dict[str, float] = {}
        for line in call(
            self.shell, scripts.STATE, self.runner.folder, limits=ExchangeLimits(60, 60, 1 << 16)
        ).splitlines():
            name, tab, value = line.partition("\t")
            plain = name.replace(".", "").replace("-", "").replace("_", "")
            if tab and plain.isascii() and plain.isalnum() and len(name) < 60:
                with suppress(ValueError):
                    number = float(value)
                    found |= {name: number} if -1e6 < number < 1e6 else {}
        return found


class Device:
    """A connection to a device. Safe for one thread."""

    def __init__(self, runner: DeviceRunner) -> None:
        """Raises DeviceProblem if the device cannot be reached, or cannot run jobs."""
        self.runner = runner
        self._hold: subprocess.Popen[bytes] | None = None
        self.shell = open_shell(runner)
        self.facts = self._ask()

    def _ask(self) -> Facts:
        try:
            return ask(self.shell, self.runner)
        except BaseException:
            self.close()
            raise

    def reopen(self) -> None:
        """Connect again. Raises DeviceProblem if that fails."""
        self.close()
        self.shell = open_shell(self.runner)
        self.facts = self._ask()

    def close(self) -> None:
        """End the connection."""
        self.shell.close()

    def interrupt(self) -> None:
        """End the session of another thread, and its job; both threads continue."""
        hold = self._hold
        if hold is not None and hold.stdin is not None:
            with suppress(OSError):
                hold.stdin.close()

    @contextmanager
    def session(self, purpose: str, wait: float, say: Callable[[str], None]) -> Iterator[DeviceSession]:
        """Yield a session with the device's lock. `say` gets one line if another session has it; then wait at most
        `wait` seconds. The session leaves nothing on the device.

        Raises DeviceProblem if the lock is still held after the wait, and ConnectionLost if the connection ends before
        the session.
        """
        token = secrets.token_hex(8)
        process = self.shell.start(
            scripts.HOLD, self.runner.folder, owner(purpose), f"{round(wait)}", f"{_SILENCE}", token
        )
        self._hold = process
        beats = _Beats(process)
        try:
            _acquire(self.shell, process, wait, say)
            yield DeviceSession(self.shell, self.runner, self.facts, token)
        finally:
            beats.stop()
            self._hold = None
            _release(process)


def _lines(texts: Iterable[str]) -> Iterator[bytes]:
    return (f"{text}\n".encode() for text in texts)


def owner(purpose: str) -> str:
    """Return the description of this user of a device, for waiting sessions: user, machine, process and purpose."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"user {os.getuid()}"
    return cut(f"{user}@{socket.gethostname()} (process {os.getpid()}) for {purpose}")[:200]


def _acquire(shell: Shell, process: subprocess.Popen[bytes], wait: float, say: Callable[[str], None]) -> None:
    """Wait until the script HOLD holds the lock."""
    assert process.stdout is not None
    holder = ""
    while True:
        line = _line(process.stdout, wait + _GRACE)
        if line == "held":
            return
        word, _, rest = line.partition(" ")
        if word == "busy" and not holder:
            holder = cut(rest) or "another session"
            say(f"in use by {holder}; waiting up to {wait:.0f} s")
            continue
        if line == "late":
            raise Busy(f"in use by {holder} for more than {wait:.0f} s; expected it free", holder)
        assert process.stderr is not None
        with suppress(subprocess.TimeoutExpired):
            process.wait(5)
        if process.returncode is None or line:
            raise DeviceProblem(f"the device answers '{cut(line)[:60]}'; expected its lock")
        text = process.stderr.read(4096).decode(errors="replace").strip().splitlines()
        if process.returncode == 255 or shell.lost():
            raise ConnectionLost(f"the connection was lost ({shell.lost() or 'it was closed'})")
        raise DeviceProblem(f"its folder cannot be made ({cut(text[-1]) if text else 'no reason is given'})")


def _line(pipe: IO[bytes], seconds: float) -> str:
    """Return the next line, at most 400 characters; '' at the end and after `seconds`."""
    import select

    found = bytearray()
    deadline = time.monotonic() + seconds
    while not found.endswith(b"\n") and len(found) < 400:
        ready, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
        data = os.read(pipe.fileno(), 1) if ready else b""
        if not data:
            break
        found += data
    return found.decode(errors="replace").strip()


def _release(process: subprocess.Popen[bytes]) -> None:
    """Close the session's input, which makes the device clean up, and wait until it has cleaned up."""
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_SILENCE)
    end(process)


class _Beats:
    """Signs of life of a session, from a separate thread."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="device", daemon=True)
        self._thread.start()

    def _beat(self) -> None:
        assert self._process.stdin is not None
        while not self._stopped.wait(_BEAT):
            try:
                os.write(self._process.stdin.fileno(), b"\n")
            except (OSError, ValueError):
                return

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()


def _packed(files: Sequence[LocalFile]) -> Iterator[bytes]:
    """Yield a tar of files called by their digests."""
    for each in files:
        entry = tarfile.TarInfo(each.digest)
        entry.size, entry.mode = each.size, 0o600
        yield entry.tobuf(tarfile.PAX_FORMAT)
        left = each.size
        with each.path.open("rb") as file:
            while left and (data := file.read(min(left, 1 << 18))):
                left -= len(data)
                yield data
        if left:
            raise JobProblem("a file of the job became shorter while it was sent; build again")
        yield b"\0" * (-each.size % tarfile.BLOCKSIZE)
    yield b"\0" * (2 * tarfile.BLOCKSIZE)
