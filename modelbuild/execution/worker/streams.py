"""Output of a step and reports of its worker, in memory until it ends.

Files on a disk would cost more than most other parts of an action.
"""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Streams:
    """Open files as descriptors: the step's stdout and stderr, and its worker's report."""

    report: int
    stdout: int
    stderr: int

    @classmethod
    def in_memory(cls) -> Streams:
        """Make empty files. Raises OSError."""
        made: list[int] = []
        try:
            for name in ("report", "stdout", "stderr"):
                made.append(os.memfd_create(name))
                fcntl.fcntl(made[-1], fcntl.F_SETFL, os.O_APPEND)
        except OSError:
            for descriptor in made:
                os.close(descriptor)
            raise
        return cls(*made)

    def reported(self) -> str:
        """Return the report."""
        size = os.fstat(self.report).st_size
        return os.pread(self.report, size, 0).decode(errors="replace")

    def save(self, stdout: str, stderr: str) -> None:
        """Write the step's output, if any, to new files. Raises OSError."""
        for descriptor, path in ((self.stdout, stdout), (self.stderr, stderr)):
            if os.fstat(descriptor).st_size:
                done = 0
                with open(path, "xb") as target:  # never follows a link
                    while sent := os.sendfile(target.fileno(), descriptor, done, 1 << 30):
                        done += sent

    def close(self) -> None:
        for descriptor in (self.report, self.stdout, self.stderr):
            os.close(descriptor)
