"""Find the nodes that no backend takes and no kernel can run, right after the decomposition of a program and before a
backend gets any nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from modelbuild_rules.backend_api.steps.nodes import computing, origin
from modelbuild_rules.program.steps.lowering.delegation import Delegation, Fact
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
from modelbuild_rules.program.steps.lowering.rewrites.replacing import has_form, is_wrong
from modelbuild_rules.program.steps.lowering.rewrites.volumes import is_volume
from modelbuild_rules.program.steps.lowering.stack import Stack


@dataclass(frozen=True)
class Unfit:
    """The nodes for which a program must be rewritten; false if there are none.

    volumes    nodes of the exported program that convolve volumes
    replaced   nodes of the exported program with an operator that has a form (replacing.py)
    operators  these operators, of the edge dialect
    nested     true if there are such operators in branches of control flow
    """

    volumes: frozenset[str] = frozenset()
    replaced: frozenset[str] = frozenset()
    operators: frozenset[Any] = frozenset()
    nested: bool = False

    def __bool__(self) -> bool:
        return bool(self.volumes or self.operators)


class Unrunnable:
    """The nodes of an edge program that all backends of a stack refuse, and that kernels may not run. Each backend is
    asked once, in seconds, and only if there are such nodes.

    Lowering may still refuse a program: a backend that takes a node here gets it only if no earlier backend took it,
    and may fail to compile it.
    """

    def __init__(self, program: Any, stack: Stack) -> None:
        self._stack = stack
        self._nodes = dict(computing(program.graph_module))
        kernels = kernel_names()
        nodes = self._nodes.items()
        self._missing = {n for n, node in nodes if not has_kernel(node, kernels)}
        self._volumes = {n for n, node in nodes if "." not in n and is_volume(node)}
        # No kernel computes these operators as eager mode does, but they have a form.
        self._formed = {
            n
            for n, node in nodes
            if n not in self._volumes and (is_wrong(node) or (n in self._missing and has_form(node.target)))
        }
        # A backend must take these: the stack has no kernels for the rest, or limits them, or no kernel may run them.
        limited = stack.rest is None or stack.ops is not None
        self._forbidden = {
            n
            for n, node in nodes
            if (_computes(node) and (limited or n in self._missing)) or (not limited and unlisted_types(node))
        }
        self._left = self._refused(program)

    def _refused(self, program: Any) -> list[Fact]:
        """Return the nodes that each backend refuses, with the reasons."""
        doubtful = [name for name in self._nodes if name in {*self._volumes, *self._formed, *self._forbidden}]
        delegation = Delegation()
        delegation.record_nodes(program)
        for backend in self._stack.backends if doubtful else ():
            reasons = backend.partitioning.refused(program, backend.attributes)
            for name in list(doubtful):
                why = "inside a branch of control flow" if "." in name else reasons.get(self._nodes[name].name)
                if why is None:
                    doubtful.remove(name)
                else:
                    delegation.facts[name].refused.append({"backend": backend.kind, "why": why})
        return [delegation.facts[name] for name in doubtful]

    def unfit(self, tried: set[Any]) -> Unfit:
        """Return the nodes for which the program must be rewritten. In branches of control flow, only operators with
        forms are rewritten. `tried` gets the names of these nodes, with the numbers of their operators: nodes are tried
        again only if fewer are left, as of an operator whose form contains others with it."""
        found = []
        keys = {
            fact.name: (fact.origin or self._nodes[fact.name].name, fact.op, "." in fact.name) for fact in self._left
        }
        numbers = Counter(keys.values())
        for fact in self._left:
            node = self._nodes[fact.name]
            key = keys[fact.name], numbers[keys[fact.name]]
            if key not in tried and (fact.name in self._formed or self._fails(fact.name, node)):
                found.append((fact.name, node))
                tried.add(key)
        formed = [(name, node) for name, node in found if name in self._formed]
        return Unfit(
            volumes=frozenset(origin(node) or node.name for name, node in found if name in self._volumes),
            replaced=frozenset(origin(node) or node.name for name, node in formed if "." not in name),
            operators=frozenset(node.target for _, node in formed),
            nested=any("." in name for name, _ in formed),
        )

    def _fails(self, name: str, node: Node) -> bool:
        return name in self._volumes and (name in self._missing or bool(wrong_types(node)))

    def problems(self) -> str:
        """Return the error message for the nodes, with a line for each operator; '' if there are none."""
        stack = self._stack
        left = [fact for fact in self._left if fact.name in self._forbidden]
        has_rest = stack.rest is not None
        types = {fact.name: wrong_types(self._nodes[fact.name]) if has_rest else "" for fact in left}
        first = {(fact.op, types[fact.name]): fact for fact in reversed(left) if types[fact.name]}
        missing = [fact for fact in left if has_rest and fact.name in self._missing]
        problems = [
            *filter(None, [allowed_problem(left, stack)]),
            *(dtype_text(fact, wrong) for (_, wrong), fact in reversed(first.items())),
            *([kernel_text(missing)] if missing else []),
        ]
        if not problems:
            return ""
        at_fault = [
            fact
            for fact in left
            if not has_rest
            or (stack.ops is not None and fact.op not in stack.ops)
            or types[fact.name]
            or fact.name in self._missing
        ]
        lines = _lines(at_fault)
        # One problem of a few operators needs no list.
        return "\n".join([*(lines if len(problems) > 1 or len(lines) > SHOWN else ()), "; ".join(problems)])


def _computes(node: Any) -> bool:
    """Return whether a node computes tensors; sizes and assertions need no backend."""
    values = node.meta.get("val")
    return any(isinstance(each, torch.Tensor) for each in (values if isinstance(values, (list, tuple)) else [values]))


def _lines(facts: Sequence[Fact]) -> list[str]:
    """Return a line for each operator, with its place and the reasons why no backend takes it."""
    first: dict[str, Fact] = {}
    count: dict[str, int] = {}
    for fact in facts:
        first.setdefault(fact.op, fact)
        count[fact.op] = count.get(fact.op, 0) + 1
    return [f"  {op}, {count[op]} node{'s' * (count[op] != 1)}: {about(fact)}" for op, fact in first.items()]
