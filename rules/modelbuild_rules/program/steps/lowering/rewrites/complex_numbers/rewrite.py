"""Rewrite a program that computes with complex numbers to real arithmetic: the runtime has no complex tensors.

A complex tensor becomes two real tensors, its parts. Each node that computes with complex numbers is traced with parts
instead of its complex arguments (parts.py), and the trace replaces the node.

Private names used, checked on torch 2.14.0: torch._subclasses.complex_tensor.ComplexTensor, torch.utils._pytree. None
is patched.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch._subclasses.complex_tensor import ComplexTensor
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Node
from torch.utils import _pytree as pytree

from modelbuild.step import StepError
from modelbuild_rules.backend_api.steps.nodes import origin
from modelbuild_rules.node_references import node_reference
from modelbuild_rules.program.steps.lowering.rewrites.complex_numbers.parts import compute
from modelbuild_rules.program.steps.lowering.rewrites.decomposition import all_nodes, decomposed
from modelbuild_rules.program.steps.lowering.rewrites.inlining import call, inline, traced

aten = torch.ops.aten

_INSIDE = ("aten.fft_", "aten._fft_", "aten.stft.", "aten.istft.")
"""Prefixes of the names of operators that compute with complex numbers inside, even from real arguments to real
results."""

_NOTHING = (aten._assert_tensor_metadata.default,)


def has_complex_numbers(program: ExportedProgram) -> bool:
    """Return whether an ATen program computes with complex numbers."""
    return any(map(_concerned, all_nodes(program.graph_module)))


def in_real_arithmetic(program: ExportedProgram) -> ExportedProgram:
    """Return an equivalent ATen program that computes with real numbers only. Complex inputs and outputs of the program
    stay complex. Raises StepError with all operators that have no real form, or for a complex number in a branch of
    control flow."""
    _check_branches(program)
    program = decomposed(program, {})  # without operators that change their arguments
    _Rewrite(program).run()
    program.graph.eliminate_dead_code()
    program.graph_module.recompile()
    program.validate()
    return program


def _check_branches(program: ExportedProgram) -> None:
    own = set(program.graph.nodes)
    node = next((each for each in all_nodes(program.graph_module) if each not in own and _concerned(each)), None)
    if node is not None:
        raise StepError(
            f"{node_reference(node.name, origin(node) or node.name)}: complex numbers in a branch of control flow;"
            " expected real numbers there (torch.view_as_real)"
        )


def _concerned(node: Node) -> bool:
    values = node.meta.get("val") if node.op in ("placeholder", "call_function") else None
    return str(node.target).startswith(_INSIDE) or any(map(_is_complex, pytree.tree_leaves(values)))


def _is_complex(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_complex()


class _Parts:
    """The two nodes that replace a complex node."""

    def __init__(self, re: Node, im: Node) -> None:
        self.nodes = re, im


class _Rewrite:
    """One rewriting of a program, in place."""

    def __init__(self, program: ExportedProgram) -> None:
        self._program = program
        self._signature = program.graph_signature
        self._graph = program.graph
        self._made: dict[Node, Any] = {}  # results by rewritten node, with _Parts for complex results
        self._failed: dict[Node, str] = {}  # nodes without a real form, and nodes that use these ('')

    def run(self) -> None:
        for node in list(self._graph.nodes):
            before = node.all_input_nodes
            if node.op == "placeholder" and _concerned(node):
                self._input(node)
            elif node.op == "call_function" and any(each in self._failed for each in before):
                self._failed[node] = ""
            elif node.op == "call_function" and (_concerned(node) or any(each in self._made for each in before)):
                self._rewrite(node)
        if self._failed:
            raise StepError(self._problem())
        rewritten = [node for node in self._made if node.op == "call_function"]
        for node in rewritten:
            if isinstance(self._made[node], _Parts):
                self._join(node, self._made[node])
        for node in reversed(rewritten):
            if not node.users:
                self._graph.erase_node(node)

    def _input(self, node: Node) -> None:
        """Read the parts of an input. A constant is stored as its parts instead."""
        spec = next(each for each in self._signature.input_specs if each.arg.name == node.name)
        target = str(spec.target)
        stored = {**self._program.state_dict, **self._program.constants}.get(target)
        first = next(each for each in self._graph.nodes if each.op != "placeholder")
        with self._graph.inserting_before(first):
            both = node
            if (
                spec.kind == InputKind.USER_INPUT
                or stored is None
                or target in self._signature.buffers_to_mutate.values()
            ):
                both = call(self._graph, node, aten.view_as_real.default, node)
            else:
                parts = torch.view_as_real(stored.detach().resolve_conj()).contiguous()
                home = self._program.state_dict if target in self._program.state_dict else self._program.constants
                home[target] = torch.nn.Parameter(parts, False) if isinstance(stored, torch.nn.Parameter) else parts
                with node.meta["val"].fake_mode:
                    node.meta["val"] = torch.empty(parts.shape, dtype=parts.dtype)
            self._made[node] = _Parts(*(call(self._graph, node, aten.select.int, both, -1, index) for index in (0, 1)))

    def _rewrite(self, node: Node) -> None:
        """Insert the real form of a node, and use its real results instead of the node's."""
        if node.target in _NOTHING:
            self._made[node] = None
        elif node.target is operator.getitem:
            self._made[node] = self._made[node.args[0]][node.args[1]]
        else:
            try:
                self._made[node] = self._inserted(node)
            except Exception as problem:  # torch's forms raise exceptions of many kinds
                self._failed[node] = " ".join(str(problem).split()) or type(problem).__name__
                return
        made = self._made[node]
        if isinstance(made, Node):
            node.replace_all_uses_with(made)
            self._signature.replace_all_uses(node.name, made.name)

    def _inserted(self, node: Node) -> Any:
        """Trace a node with parts instead of its complex arguments; insert the trace, and return its results."""
        leaves, spec = pytree.tree_flatten((node.args, node.kwargs))
        nodes = [self._made.get(each, each) for each in leaves if isinstance(each, Node)]
        inputs = [part for each in nodes for part in (each.nodes if isinstance(each, _Parts) else (each,))]
        result: Any = None

        def form(*values: Any) -> list[Any]:
            nonlocal result
            given = iter(values)
            filled = [
                each if not isinstance(each, Node) else _taken(given, isinstance(self._made.get(each), _Parts))
                for each in leaves
            ]
            args, kwargs = pytree.tree_unflatten(filled, spec)
            result = compute(node.target, args, kwargs)
            return [part for each in pytree.tree_leaves(result) for part in _split(each)]

        trace = traced(form, node, inputs)
        if any(_is_complex(each.meta.get("val")) for each in trace.graph.nodes):
            raise NotImplementedError("its form by parts has complex numbers")
        parts = iter(inline(self._graph, node, trace, inputs))
        return pytree.tree_map(lambda each: _Parts(next(parts), next(parts)) if _is_pair(each) else next(parts), result)

    def _join(self, node: Node, made: _Parts) -> None:
        """Make a complex tensor of its parts if an output of the program needs it."""
        if all(user in self._made for user in node.users):
            return
        with self._graph.inserting_before(node):
            whole = call(self._graph, node, aten.complex.default, *made.nodes)
        node.replace_all_uses_with(whole, lambda user: user not in self._made)
        self._signature.replace_all_uses(node.name, whole.name)

    def _problem(self) -> str:
        first = {str(node.target): node for node, why in reversed(self._failed.items()) if why}
        listed = ", ".join(
            f"{op} ({node_reference(node.name, origin(node) or node.name)}: {self._failed[node]})"
            for op, node in reversed(first.items())
        )
        return (
            f"complex numbers become pairs of real ones, and there is no such form of {listed}; expected"
            " other operators, or real numbers (torch.view_as_real)"
        )


def _taken(values: Iterator[Any], pair: bool) -> Any:
    """Return the next value, or the next two as a complex tensor."""
    return ComplexTensor(next(values), next(values)) if pair else next(values)


def _split(value: Any) -> tuple[Any, ...]:
    return (value.re, value.im) if _is_pair(value) else (value,)


def _is_pair(value: Any) -> bool:
    return isinstance(value, ComplexTensor)
