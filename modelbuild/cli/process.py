"""Correct the state that a process inherits: standard streams that are closed, full, or read by nobody, and a umask
that takes rights from the user."""

from __future__ import annotations

import io
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TextIO


class _Output(io.FileIO):
    """A file that drops what cannot be written, so that a command ends as it would otherwise. `error` is the errno of
    the first failure, or 0."""

    error = 0

    def write(self, data: Any, /) -> int:
        if not self.error:
            try:
                return super().write(data)
            except BlockingIOError:
                raise
            except OSError as error:
                self.error = error.errno or -1
        return len(memoryview(data).cast("B"))


def prepare_process() -> None:
    """Open closed standard streams as /dev/null, since the next opened file would take their place, and replace
    sys.stdout and sys.stderr by streams that never fail. Let the user read, write and run what the process makes."""
    os.umask(os.umask(0o077) & 0o077)
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # takes the lowest free descriptor
    sys.stdin = sys.stdin or io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
    sys.stdout = _opened(1, sys.stdout)
    sys.stderr = _opened(2, sys.stderr)


def finish_process(code: int) -> int:
    """Flush standard output, and return the exit code of a command that ends with `code`: another one if it succeeded
    and its output could not be written. A reader that closed its pipe has seen enough."""
    import errno

    sys.stdout.flush()
    output: Any = sys.stdout.buffer
    failed = output.raw.error
    if code or failed in (0, errno.EPIPE):
        return code
    sys.stderr.write(f"error: standard output: {os.strerror(failed)}\n")
    return 36  # ExitCode.ENVIRONMENT, which is not imported here


def _opened(descriptor: int, usual: TextIO | None) -> TextIO:
    buffer = io.BufferedWriter(_Output(descriptor, "wb", closefd=False))
    if not isinstance(usual, io.TextIOWrapper):
        return io.TextIOWrapper(buffer, "utf-8", "backslashreplace")
    by_line = usual.line_buffering or usual.write_through
    return io.TextIOWrapper(buffer, usual.encoding, usual.errors, line_buffering=by_line)
