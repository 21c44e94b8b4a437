"""A method as a graph of stages, in the order of a run: partitions, and the kernel calls between them."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any


def add_stages(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of a program with `stages` of each method, and `folded`: the nodes outside partitions that no
    kernel call computes, such as assertions and views of memory.

    A stage has `partition` (an index, or None), `calls` (of kernels: `op`, `count` and the `reasons` of backends that
    refused it), `after`, the stages that it reads from, and `inputs`, true if it reads inputs of the method.
    """
    reasons: dict[str, deque[Mapping[str, Any]]] = defaultdict(deque)
    for node in facts["left"] or ():
        reasons[_of_node(node["op"])].append(node)
    methods = [{**method, "stages": _stages(method["calls"], reasons)} for method in facts["methods"]]
    folded = sorted((node for nodes in reasons.values() for node in nodes), key=lambda node: str(node["op"]))
    return {**facts, "methods": methods, "folded": _counted((node["op"], node) for node in folded)}


def _stages(calls: Sequence[Mapping[str, Any]], reasons: Mapping[str, deque[Mapping[str, Any]]]) -> list[Any]:
    place: list[int] = []
    stages: list[dict[str, Any]] = []
    for (_, partition), group in groupby(enumerate(calls), lambda each: _identity(*each)):
        several = [call for _, call in group]
        place += [len(stages)] * len(several)
        after = {place[number] for call in several for number in call["after"]} - {len(stages)}
        kernels = [(call["kernel"], _take(reasons, call["kernel"])) for call in several if call["kernel"]]
        inputs = any(call["inputs"] for call in several)
        stages.append({"partition": partition, "calls": _counted(kernels), "after": sorted(after), "inputs": inputs})
    return stages


def _identity(number: int, call: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return equal values for the kernel calls of a stage, and another value for each call of a delegate."""
    return (None, None) if call["delegate"] is None else (number, call["delegate"])


def _take(reasons: Mapping[str, deque[Mapping[str, Any]]], kernel: str) -> Mapping[str, Any] | None:
    """Return the next node that a kernel computes, and remove it; None if there is none."""
    nodes = reasons.get(kernel.partition(".")[0])
    return nodes.popleft() if nodes else None


def _of_node(op: str) -> str:
    """Return `aten::add` for `aten.add.Tensor`, as in the kernel's name `aten::add.out`."""
    return "::".join(op.split(".")[:2])


def _counted(found: Iterable[tuple[str, Mapping[str, Any] | None]]) -> list[dict[str, Any]]:
    """Return each operator with its reasons, and the count of nodes with these reasons."""
    counts = Counter(
        (op, tuple((each["backend"], each["why"]) for each in node["refused"]) if node is not None else ())
        for op, node in found
    )
    return [
        {"op": op, "count": count, "reasons": [{"backend": backend, "why": why} for backend, why in refused]}
        for (op, refused), count in counts.items()
    ]
