"""Check right after the decomposition of a program that each operator has a backend or a kernel, with every reason."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch

from modelbuild_rules.program.steps.lowering.delegation import Delegation, Fact, computing
from modelbuild_rules.program.steps.lowering.portable import (
    SHOWN,
    about,
    allowed_problem,
    dtype_text,
    has_kernel,
    kernel_names,
    kernel_text,
    unlisted_types,
    wrong_types,
)
from modelbuild_rules.program.steps.lowering.stack import Stack, StackBackend


def operator_problems(program: Any, stack: Stack, refused: Callable[[StackBackend], Mapping[str, str]]) -> str:
    """Return the error message for operators of an edge program that can't be lowered with a stack, with a line for
    each; '' if all can. `refused` returns why a backend does not take nodes, by name.

    The check takes seconds. Lowering may still refuse a program: a backend that takes a node here gets it only if no
    earlier one did, and may fail to compile it.
    """
    nodes = dict(computing(program.graph_module))
    kernels = kernel_names()
    missing = {name for name, node in nodes.items() if _computes(node) and not has_kernel(node, kernels)}
    left = _left(program, nodes, missing, stack, refused)
    types = {} if stack.rest is None else {fact.name: wrong_types(nodes[fact.name]) for fact in left}
    first = {(fact.op, types[fact.name]): fact for fact in reversed(left) if types.get(fact.name)}
    without = [] if stack.rest is None else [fact for fact in left if fact.name in missing]
    problems = [
        *([problem] if (problem := allowed_problem(left, stack)) else []),
        *(dtype_text(fact, wrong) for (_, wrong), fact in reversed(first.items())),
        *([kernel_text(without)] if without else []),
    ]
    if not problems:
        return ""
    at_fault = [
        fact
        for fact in left
        if stack.rest is None
        or (stack.ops is not None and fact.op not in stack.ops)
        or types[fact.name]
        or fact.name in missing
    ]
    lines = _lines(at_fault)
    # One problem of a few operators needs no list.
    return "\n".join([*(lines if len(problems) > 1 or len(lines) > SHOWN else ()), "; ".join(problems)])


def _left(
    program: Any,
    nodes: Mapping[str, Any],
    missing: Collection[str],
    stack: Stack,
    refused: Callable[[StackBackend], Mapping[str, str]],
) -> list[Fact]:
    """Return the nodes that a backend must take, because no kernel can run them or the stack forbids it, and that each
    backend refuses, with the reasons."""
    if stack.rest is None or stack.ops is not None:
        doubtful = [name for name, node in nodes.items() if _computes(node)]
    else:
        doubtful = [name for name, node in nodes.items() if unlisted_types(node) or name in missing]
    if not doubtful:
        return []
    delegation = Delegation()
    delegation.record_nodes(program)
    for backend in stack.backends:
        reasons = refused(backend)
        for name in list(doubtful):
            why = "inside a branch of control flow" if "." in name else reasons.get(nodes[name].name)
            if why is None:
                doubtful.remove(name)
            else:
                delegation.facts[name].refused.append({"backend": backend.kind, "why": why})
    return [delegation.facts[name] for name in nodes if name in doubtful]


def _computes(node: Any) -> bool:
    """Return whether a node computes tensors; sizes and assertions need no backend."""
    values = node.meta.get("val")
    return any(isinstance(each, torch.Tensor) for each in (values if isinstance(values, (list, tuple)) else [values]))


def _lines(facts: Sequence[Fact]) -> list[str]:
    """Return a line for each operator: where it is, and why no backend takes it."""
    first: dict[str, Fact] = {}
    count: dict[str, int] = {}
    for fact in facts:
        first.setdefault(fact.op, fact)
        count[fact.op] = count.get(fact.op, 0) + 1
    return [f"  {op}, {count[op]} node{'s' * (count[op] != 1)}: {about(fact)}" for op, fact in first.items()]
