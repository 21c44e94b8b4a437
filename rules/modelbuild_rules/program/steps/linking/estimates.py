"""Add up the estimates of a program's partitions: the time of a call of each method from host memory. Torch-free."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from modelbuild_rules.wording import count
from modelbuild_runtime.files.pte import Delegate, Method, read_program_file

if TYPE_CHECKING:
    from modelbuild_rules.backend_api.documents import Estimate
    from modelbuild_rules.program.documents import CompiledPartition, MethodEstimate

_FREE = ("et_copy::", "executorch_prim::")
"""Kernels of copies, which count by their bytes, and of arithmetic on sizes."""


def estimates(pte: Path, partitions: Sequence[CompiledPartition]) -> dict[str, MethodEstimate]:
    """Return the estimate of each method of a program; of none, if no partition has an estimate."""
    if not any("estimate" in each.get("about", {}) for each in partitions):
        return {}

    def partition(delegate: Delegate) -> CompiledPartition:
        same = [each for each in partitions if each["processed_bytes"] == delegate.size]
        if len(same) == 1:
            return same[0]
        with pte.open("rb") as file:
            file.seek(delegate.offset)
            digest = hashlib.sha256(file.read(delegate.size)).hexdigest()
        return next((each for each in same if each.get("processed_sha256") == digest), same[0])

    return {method.name: _of_method(method, partition) for method in read_program_file(pte, verify=False).methods}


def _of_method(method: Method, partition: Callable[[Delegate], CompiledPartition]) -> MethodEstimate:
    unknown: list[str] = []
    known: list[Estimate] = []
    for call in method.calls:
        if call.delegate is None:
            continue
        part = partition(method.delegates[call.delegate])
        estimate = part.get("about", {}).get("estimate")
        if estimate is None:
            unknown.append(f"{part['id']} ({part['backend']})")
            continue
        known.append(estimate)
        if libraries := sum("seconds" not in kernel for kernel in estimate["kernels"]):
            unknown.append(f"{count(libraries, 'call')} of libraries in {part['id']}")
    portable = sum(bool(call.kernel) and not call.kernel.startswith(_FREE) for call in method.calls)
    if portable:
        unknown.append(f"{count(portable, 'call')} of kernels on the CPU")
    most = method.most
    moved = most.staged_in + most.copied_in, most.staged_out + most.copied_out
    seconds = sum(each["call"] + sum(kernel.get("seconds", 0.0) for kernel in each["kernels"]) for each in known)
    seconds += sum(moved) / known[0]["link"] if known else 0.0
    return {"seconds": float(f"{seconds:.3g}"), "moved": list(moved), "unknown": unknown}
