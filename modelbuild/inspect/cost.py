"""The estimated time of a program's calls, from the facts of its partitions, as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from modelbuild.inspect.delegation import DelegatedNode, Estimate, Kernel
from modelbuild.wording import count

_SHOWN = 5
"""The number of kernels of a partition that are shown."""

_OPERATORS = 3


def partition_cost(estimate: Estimate, nodes: Sequence[DelegatedNode]) -> dict[str, Any]:
    """Return the seconds of a partition of these nodes, the bytes of memory that its kernels move, and the most
    expensive kernels with their operators and modules."""
    by_index = {node.index: node for node in nodes}
    known = [kernel for kernel in estimate.kernels if kernel.seconds is not None]
    ranked = sorted(known, key=lambda kernel: -(kernel.seconds or 0.0))
    return {
        "device": estimate.device,
        "basis": estimate.basis,
        "seconds": estimate.call + sum(kernel.seconds or 0.0 for kernel in known),
        "kernels": len(estimate.kernels),
        "unknown": len(estimate.kernels) - len(known),
        "bytes": sum(kernel.bytes for kernel in estimate.kernels),
        "most_expensive": [_kernel(kernel, by_index) for kernel in ranked[:_SHOWN]],
    }


def _kernel(kernel: Kernel, nodes: Mapping[int | None, DelegatedNode]) -> dict[str, Any]:
    found = [nodes[index] for index in kernel.nodes if index in nodes]
    return {
        "seconds": kernel.seconds,
        "bytes": kernel.bytes,
        "operators": [node.op for node in found],
        "modules": list(dict.fromkeys(node.module for node in found if node.module)),
    }


def cost_lines(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of all methods."""
    costs = [part["cost"] for method in facts["methods"] for part in method["partitions"] if part["cost"]]
    if not costs:
        yield "cost: unknown; only partitions for CUDA have estimates, in the delegation.json next to the program"
        return
    yield f"cost on {costs[0]['device']}, estimated: {costs[0]['basis']}"
    for method in facts["methods"]:
        if (total := method["estimate"]) is not None:
            there, back = total["moved"]
            yield f"method {method['name']}, called from host memory: {_time(total['seconds'])}"
            yield f"  copies of at most {there:,} bytes to the device and {back:,} back"
            yield from (f"  without {unknown}, whose time is unknown" for unknown in total["unknown"])
        for part in method["partitions"]:
            if part["cost"]:
                yield from _partition(part["id"], part["cost"])


def _partition(id: str, cost: Mapping[str, Any]) -> Iterator[str]:
    yield f"  {id}: {_time(cost['seconds'])}, {count(cost['kernels'], 'kernel')}, {cost['bytes']:,} bytes of memory"
    for kernel in cost["most_expensive"]:
        operators = [*kernel["operators"][:_OPERATORS], *(["..."] if len(kernel["operators"]) > _OPERATORS else [])]
        module = f" ({kernel['modules'][0]})" if kernel["modules"] else ""
        yield f"    {_time(kernel['seconds'])}, {kernel['bytes']:,} bytes: {', '.join(operators)}{module}"


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"
