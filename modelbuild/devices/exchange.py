"""Feed a script's standard input and read its output, within limits of time and size."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, TypeAlias

from modelbuild.devices.problems import ConnectionLost, DeviceProblem, DiskFull, JobProblem, cut
from modelbuild.devices.shells import Shell, end

Take: TypeAlias = Callable[[bytes], object]

_CHUNK = 1 << 16
_MOST_STDERR = 1 << 16  # bytes that are kept
_MOST_ERRORS = 1 << 24  # bytes that a device may send
_CONNECTION = 255  # ssh's exit status
_FULL, _CHANGED, _MISSING = 3, 4, 5  # exit statuses of the scripts


@dataclass(frozen=True, slots=True)
class ExchangeLimits:
    """The seconds that a script may run, and the seconds and bytes of its output: it may be silent for `silence`
    seconds while data go either way, and print `output` bytes."""

    seconds: float = 600.0
    silence: float = 120.0
    output: int = 1 << 20


def call(
    shell: Shell, script: str, *arguments: str, feed: Iterable[bytes] = (), limits: ExchangeLimits = ExchangeLimits()
) -> str:
    """Run a script to its end and return its output as text. Raises as exchange() does."""
    chunks: list[bytes] = []
    exchange(shell, shell.start(script, *arguments), chunks.append, feed, limits)
    return b"".join(chunks).decode(errors="replace")


def exchange(
    shell: Shell, process: subprocess.Popen[bytes], take: Take, feed: Iterable[bytes], limits: ExchangeLimits
) -> None:
    """Run a script's process to its end; `take` is called with each part of its output.

    Raises ConnectionLost if the connection ends, or the device is silent too long. Raises JobProblem for a full disk
    and for more output than allowed. For other failures, raises DeviceProblem with the script's last error line.
    """
    stderr = bytearray()
    try:
        _pump(process, take, iter(feed), stderr, limits)
        with suppress(subprocess.TimeoutExpired):
            process.wait(limits.silence)
    finally:
        end(process)
    text = stderr.decode(errors="replace")
    if process.returncode == _CONNECTION or (process.returncode and shell.lost()):
        raise ConnectionLost(f"the connection was lost ({shell.lost() or cut(text) or 'it was closed'})")
    if process.returncode == _FULL:
        raise DiskFull("the disk of the device is full, or a quota is; expected more space")
    if process.returncode == _MISSING:
        raise ConnectionLost("the device lost a file that it had")
    if process.returncode == _CHANGED:
        raise JobProblem("a file changed while it was sent to the device; build again")
    if process.returncode:
        lines = text.strip().splitlines() or [f"a script ended with status {process.returncode}"]
        raise DeviceProblem(cut(lines[-1]))


def _pump(
    process: subprocess.Popen[bytes], take: Take, feed: Iterator[bytes], stderr: bytearray, limits: ExchangeLimits
) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    began = moved = time.monotonic()
    pending, got, errors = memoryview(b""), 0, 0
    with selectors.DefaultSelector() as selector:
        os.set_blocking(process.stdin.fileno(), False)
        selector.register(process.stdin, selectors.EVENT_WRITE)
        for pipe in (process.stdout, process.stderr):
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select(1.0):
                if key.fileobj is process.stdin:
                    if not pending:
                        pending = memoryview(next(filter(None, feed), b""))
                    pending, open_still = _write(process.stdin, pending)
                    if not open_still:
                        selector.unregister(key.fileobj)
                    moved = time.monotonic()
                    continue
                data = os.read(key.fd, _CHUNK)
                moved = time.monotonic()
                if not data:
                    selector.unregister(key.fileobj)
                elif key.fileobj is process.stderr:
                    errors += len(data)
                    if errors > _MOST_ERRORS:
                        raise JobProblem(f"the device sent more than {_MOST_ERRORS} bytes of errors; expected less")
                    stderr += data[: _MOST_STDERR - len(stderr)]
                else:
                    got += len(data)
                    if got > limits.output:
                        raise JobProblem(f"the device sent more than {limits.output} bytes; expected less")
                    take(data)
            now = time.monotonic()
            if now - began > limits.seconds or now - moved > limits.silence:
                raise ConnectionLost(f"the device did not answer for {min(limits.seconds, limits.silence):.0f} s")


def _write(pipe: IO[bytes], pending: memoryview) -> tuple[memoryview, bool]:
    """Write a part of the data. Returns the rest, and whether more may follow; closes the pipe after the last part."""
    if pending:
        try:
            return pending[os.write(pipe.fileno(), pending) :], True
        except BlockingIOError:
            return pending, True
        except BrokenPipeError:
            pass  # its exit status is the reason
    with suppress(OSError):
        pipe.close()
    return memoryview(b""), False
