"""Divide targets among CI jobs so that little work is done in several jobs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# Seconds of a part of the work, by its name: an action with its id.
Seconds = Mapping[str, float]

LONGER = 1.02  # factor by which jobs grow until there are at most `most`
REPEATED = 3  # a job begins if the other jobs are this many times as long as the work that it repeats


@dataclass(slots=True)
class Job:
    """The targets of a job, its work, and the seconds of that work."""

    labels: list[str] = field(default_factory=list)
    work: set[str] = field(default_factory=set)
    seconds: float = 0.0

    def more(self, work: Collection[str], seconds: Seconds) -> float:
        """Return the seconds by which more work makes the job longer."""
        return sum(seconds[name] for name in work if name not in self.work)

    def add(self, label: str, work: Collection[str], seconds: Seconds) -> None:
        self.seconds += self.more(work, seconds)
        self.labels.append(label)
        self.work.update(work)


def divide(work: Mapping[str, Collection[str]], seconds: Seconds, most: int, least_seconds: float) -> list[Job]:
    """Return at most `most` jobs, none of them empty, for targets with this work.

    Targets are taken from the longest to the shortest. Each is put into the job to which it adds least, unless that job
    would exceed a limit; if all jobs would, a new job begins. The limit is `least_seconds`, or as much longer as `most`
    jobs require; and if a new job would repeat work of the other job, three times the seconds of that work.
    """
    longest = sorted(work, key=lambda label: (-sum(seconds[name] for name in work[label]), label))
    limit = max(least_seconds, sum(seconds[name] for name in set().union(*work.values())) / most, 1.0)
    while (jobs := _fill(longest, work, seconds, most, limit)) is None:
        limit *= LONGER
    return sorted(jobs, key=lambda job: -job.seconds)


def _fill(
    labels: Sequence[str], work: Mapping[str, Collection[str]], seconds: Seconds, most: int, limit: float
) -> list[Job] | None:
    """Return jobs of at most `limit` seconds, except for jobs of one longer target; None if that takes more jobs than
    `most`."""
    jobs: list[Job] = []
    for label in labels:
        alone = Job().more(work[label], seconds)
        grown = [(job.more(work[label], seconds), job.seconds, index) for index, job in enumerate(jobs)]
        fitting = [
            each for each in grown if each[0] == 0 or each[0] + each[1] <= max(limit, REPEATED * (alone - each[0]))
        ]
        if not fitting:
            if len(jobs) == most:
                return None
            jobs.append(Job())
        jobs[min(fitting)[2] if fitting else -1].add(label, work[label], seconds)
    return jobs


def github_matrix(jobs: Sequence[Job]) -> dict[str, Any]:
    """Return the matrix for `strategy: matrix: ${{ fromJSON(...) }}`; each job passes `matrix.targets` to `modelbuild
    ci`."""
    return {
        "include": [
            {
                "job": f"{number}/{len(jobs)}",
                "targets": " ".join(sorted(job.labels)),
                "seconds": round(job.seconds, 1),
            }
            for number, job in enumerate(jobs, 1)
        ]
    }
