"""Distribute targets to jobs of about equal duration."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True)
class Shard:
    """Labels, and their estimated seconds."""

    labels: tuple[str, ...]
    seconds: float


def shards(labels: Sequence[str], estimates: Mapping[str, float], count: int) -> list[Shard]:
    """Return at most `count` shards, none empty: the longest target first, each to the shard with the least seconds. A
    target that was never built counts as the median of the others, or as one second if there are none."""
    typical = median(estimates.values()) if estimates else 1.0
    costs = sorted(((estimates.get(label, typical), label) for label in labels), key=lambda c: (-c[0], c[1]))
    heap: list[tuple[float, int]] = [(0.0, number) for number in range(min(count, len(costs)))]
    found: list[list[str]] = [[] for _ in heap]
    for cost, label in costs:
        total, number = heapq.heappop(heap)
        found[number].append(label)
        heapq.heappush(heap, (total + cost, number))
    totals = {number: total for total, number in heap}
    return [Shard(tuple(sorted(each)), round(totals[number], 1)) for number, each in enumerate(found)]


def github_matrix(found: Sequence[Shard]) -> dict[str, Any]:
    """Return the matrix for `strategy: matrix: ${{ fromJSON(...) }}`; each job passes `matrix.targets` to `modelbuild
    ci`."""
    return {
        "include": [
            {"shard": f"{number}/{len(found)}", "targets": " ".join(shard.labels), "seconds": shard.seconds}
            for number, shard in enumerate(found, 1)
        ]
    }
