"""Check right after the decomposition of a program that each operator has a backend or a kernel, with every reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from modelbuild.step import StepError
from modelbuild_rules.backend_api.steps.nodes import computing
from modelbuild_rules.backend_api.steps.partitioning import Partitioning
from modelbuild_rules.program.steps.lowering.delegation import Delegation, Fact
from modelbuild_rules.program.steps.lowering.portable import (
    SHOWN,
    about,
    check_allowed,
    dtype_text,
    has_kernel,
    kernel_names,
    kernel_text,
    unlisted_types,
    wrong_types,
)

if TYPE_CHECKING:
    from modelbuild_rules.backend_api.documents import OfferedBackend


def check_operators(program: Any, entries: Sequence[OfferedBackend], backends: Mapping[int, Partitioning]) -> None:
    """Raise StepError if operators of an edge program can't be lowered with a stack, with a line for each.

    The check takes seconds. Lowering may still refuse a program: a backend that takes a node here gets it only if no
    earlier one did, and may fail to compile it.
    """
    rest = next((entry for entry in entries if not entry["partitioning"]), None)
    delegation = Delegation()
    delegation.record_nodes(program)
    nodes = dict(computing(program.graph_module))
    doubtful = _without_fallback(nodes, rest)
    if not doubtful:
        return
    for number, backend in backends.items():
        refused = backend.refused(program, entries[number]["attributes"])
        for name in list(doubtful):
            why = "inside a branch of control flow" if "." in name else refused.get(nodes[name].name)
            if why is None:
                doubtful.remove(name)
            else:
                delegation.facts[name].refused.append({"backend": entries[number]["kind"], "why": why})
    left = [delegation.facts[name] for name in nodes if name in doubtful]
    problems = [each for each in _problems(left, nodes, rest) if each]
    if problems:
        lines = _lines(_at_fault(left, nodes, rest))
        # One problem of a few operators needs no list.
        raise StepError("\n".join([*(lines if len(problems) > 1 or len(lines) > SHOWN else ()), "; ".join(problems)]))


def _without_fallback(nodes: Mapping[str, Any], rest: OfferedBackend | None) -> list[str]:
    """Return the nodes that a backend must take, because no kernel can run them."""
    if rest is None or rest["attributes"]["ops"] is not None:
        return [name for name, node in nodes.items() if _computes(node)]
    kernels = kernel_names()
    return [name for name, node in nodes.items() if unlisted_types(node) or _lacks_kernel(node, kernels)]


def _problems(left: Sequence[Fact], nodes: Mapping[str, Any], rest: OfferedBackend | None) -> list[str]:
    """Return all problems of nodes that no backend takes, as the lowering would report the first."""
    found = [_text(lambda: check_allowed(left, rest and rest["attributes"]["ops"], rest is not None))]
    if rest is not None:
        types = {fact.name: wrong_types(nodes[fact.name]) for fact in left}
        first = {(fact.op, types[fact.name]): fact for fact in reversed(left) if types[fact.name]}
        found += [dtype_text(fact, wrong) for (_, wrong), fact in reversed(first.items())]
        kernels = kernel_names()
        missing = [fact for fact in left if _lacks_kernel(nodes[fact.name], kernels)]
        found += [kernel_text(missing)] if missing else []
    return found


def _at_fault(left: Sequence[Fact], nodes: Mapping[str, Any], rest: OfferedBackend | None) -> list[Fact]:
    """Return the nodes with a problem."""
    if rest is None:
        return list(left)
    allowed, kernels = rest["attributes"]["ops"], kernel_names()
    return [
        fact
        for fact in left
        if (allowed is not None and fact.op not in allowed)
        or wrong_types(nodes[fact.name])
        or _lacks_kernel(nodes[fact.name], kernels)
    ]


def _text(check: Callable[[], None]) -> str:
    try:
        check()
    except StepError as problem:
        return str(problem)
    return ""


def _computes(node: Any) -> bool:
    """Return whether a node computes tensors; sizes and assertions need no backend."""
    values = node.meta.get("val")
    return any(isinstance(each, torch.Tensor) for each in (values if isinstance(values, (list, tuple)) else [values]))


def _lacks_kernel(node: Any, kernels: frozenset[str]) -> bool:
    return _computes(node) and not has_kernel(node, kernels)


def _lines(facts: Sequence[Fact]) -> list[str]:
    """Return a line for each operator: where it is, and why no backend takes it."""
    first: dict[str, Fact] = {}
    count: dict[str, int] = {}
    for fact in facts:
        first.setdefault(fact.op, fact)
        count[fact.op] = count.get(fact.op, 0) + 1
    return [f"  {op}, {count[op]} node{'s' * (count[op] != 1)}: {about(fact)}" for op, fact in first.items()]
