"""Output of a step, and the report and progress of its worker, in memory until it ends.

Files on a disk would cost more than most other parts of an action.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from dataclasses import dataclass

# Maximum bytes of progress; the rest is cut off.
_MOST = 200


@dataclass(frozen=True, slots=True)
class Streams:
    """Open files as descriptors: the step's stdout and stderr, its worker's report, and the part of its work that it
    does now. Each part overwrites the previous part, so a step costs its parent nothing until the parent reads the
    file."""

    report: int
    stdout: int
    stderr: int
    progress: int

    @classmethod
    def in_memory(cls) -> Streams:
        """Make empty files. Raises OSError."""
        made: list[int] = []
        try:
            for name in ("report", "stdout", "stderr"):
                made.append(os.memfd_create(name))
                fcntl.fcntl(made[-1], fcntl.F_SETFL, os.O_APPEND)
            made.append(os.memfd_create("progress"))
        except OSError:
            for descriptor in made:
                os.close(descriptor)
            raise
        return cls(*made)

    def reported(self) -> str:
        """Return the report."""
        size = os.fstat(self.report).st_size
        return os.pread(self.report, size, 0).decode(errors="replace")

    def show(self, part: str) -> None:
        """Replace the current part of the work. Never fails."""
        with suppress(OSError):
            os.pwrite(self.progress, part.encode(errors="replace")[:_MOST] + b"\0", 0)

    def shown(self) -> str:
        """Return the part that was kept last; '' if there is none. A part that is being written may be incomplete."""
        return os.pread(self.progress, _MOST, 0).partition(b"\0")[0].decode(errors="replace")

    def save(self, stdout: str, stderr: str) -> None:
        """Write the step's output, if any, to new files. Raises OSError."""
        for descriptor, path in ((self.stdout, stdout), (self.stderr, stderr)):
            if os.fstat(descriptor).st_size:
                done = 0
                with open(path, "xb") as target:  # never follows a link
                    while sent := os.sendfile(target.fileno(), descriptor, done, 1 << 30):
                        done += sent

    def close(self) -> None:
        for descriptor in (self.report, self.stdout, self.stderr, self.progress):
            os.close(descriptor)
