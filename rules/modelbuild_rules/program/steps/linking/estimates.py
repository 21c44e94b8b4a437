"""Add up the estimates of a program's partitions: the time of a call of each method from host memory. Torch-free."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from modelbuild_runtime.files.pte import Method, read_program_file

if TYPE_CHECKING:
    from modelbuild_rules.backend_api.documents import Estimate
    from modelbuild_rules.program.documents import CompiledPartition, MethodEstimate

_FREE = ("et_copy::", "executorch_prim::")
"""Kernels of copies, which count by their bytes, and of arithmetic on sizes."""


def estimates(pte: Path, partitions: Sequence[CompiledPartition]) -> dict[str, MethodEstimate]:
    """Return the estimate of each method of a program; of none, if no partition has an estimate."""
    if not any("estimate" in each.get("about", {}) for each in partitions):
        return {}
    by_size: dict[int, list[CompiledPartition]] = {}
    for each in partitions:
        by_size.setdefault(each["processed_bytes"], []).append(each)
    return {method.name: _of_method(method, by_size) for method in read_program_file(pte, verify=False).methods}


def _of_method(method: Method, by_size: dict[int, list[CompiledPartition]]) -> MethodEstimate:
    unknown, known = [], []
    for call in method.calls:
        if call.delegate is None:
            continue
        # Partitions of one size have about the same kernels.
        partition = by_size[method.delegates[call.delegate].size][0]
        estimate = partition.get("about", {}).get("estimate")
        if estimate is None:
            unknown.append(f"{partition['id']} ({partition['backend']})")
            continue
        known.append(estimate)
        if libraries := sum("seconds" not in kernel for kernel in estimate["kernels"]):
            unknown.append(f"{_count(libraries, 'call')} of libraries in {partition['id']}")
    portable = sum(bool(call.kernel) and not call.kernel.startswith(_FREE) for call in method.calls)
    if portable:
        unknown.append(f"{_count(portable, 'call')} of kernels on the CPU")
    most = method.most
    moved = most.staged_in + most.copied_in, most.staged_out + most.copied_out
    seconds = sum(map(_seconds, known)) + (sum(moved) / known[0]["link"] if known else 0.0)
    return {"seconds": float(f"{seconds:.3g}"), "moved": list(moved), "unknown": unknown}


def _seconds(estimate: Estimate) -> float:
    return estimate["call"] + sum(_known(estimate))


def _known(estimate: Estimate) -> Iterable[float]:
    return (kernel["seconds"] for kernel in estimate["kernels"] if "seconds" in kernel)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + "s" * (number != 1)
