"""Measure commands, and summarize samples."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Sample:
    """A run: wall-clock seconds, CPU seconds (user and system, including children), peak MiB of the largest process."""

    wall: float
    cpu: float
    memory: float


@dataclass(frozen=True)
class Figures:
    """Several runs of the same command."""

    samples: tuple[Sample, ...]

    def median(self, what: str) -> float:
        return statistics.median(self._all(what))

    def p95(self, what: str) -> float:
        """Return the 95th percentile, by nearest rank."""
        ordered = sorted(self._all(what))
        return ordered[max(0, -(-len(ordered) * 95 // 100) - 1)]

    def ratio(self, other: Figures, what: str) -> float:
        """Return the median ratio to another's runs in the same rounds."""
        pairs = zip(self._all(what), other._all(what), strict=True)
        return statistics.median(one / max(another, 1e-4) for one, another in pairs)

    def _all(self, what: str) -> list[float]:
        return [float(getattr(sample, what)) for sample in self.samples]


def measure(command: Sequence[str], folder: Path, environment: Mapping[str, str], log: Path) -> Sample:
    """Run a command and return its sample. Raises RuntimeError, with the end of its output, if it fails."""
    with log.open("wb") as output:
        started = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-10:])
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}:\n{tail}")
    return Sample(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
