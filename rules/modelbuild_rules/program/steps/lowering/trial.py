"""Test whether ExecuTorch's kernels can run one node of an edge program.

executorch lists the types of each operator's kernel, but not reliably. So a node that is not in the list is tried: a
program of this node alone, on drawn inputs of the node's types and sizes, compared with eager mode.

Private names of executorch are used; executorch_private.py lists them. Of torch: torch.SymInt.node (expr, hint,
shape_env), torch.utils._sympy.value_ranges.bound_sympy, checked on torch 2.14.0. None is patched.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import getitem
from typing import Any

import torch
from executorch.exir import EdgeCompileConfig, EdgeProgramManager
from executorch.exir.verification.verifier import EXIREdgeDialectVerifier
from torch._subclasses import FakeTensorMode
from torch.export import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx import Graph, GraphModule, Node
from torch.utils import _pytree as pytree
from torch.utils._sympy.value_ranges import bound_sympy

from modelbuild_rules.backend_api.steps import executorch_private

_CONFIG = EdgeCompileConfig(_check_ir_validity=False)

_DIFFERENCE = 1e-3
"""The greatest difference from eager mode, absolute and relative."""

_outcomes: dict[str, bool] = {}


def runs(node: Node) -> bool:
    """Return whether ExecuTorch's kernels run a node alone, with eager mode's results. Takes a tenth of a second."""
    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda each: _Described(each.meta["val"]))
    key = f"{node.target.__name__} {args} {kwargs}"
    if key not in _outcomes:
        try:
            _outcomes[key] = _agrees(node, args, kwargs)
        except Exception as problem:  # exceptions of executorch's lowering and of its runtime, which prints the reason
            print(f"{node.target.__name__} on {args} {kwargs}: {problem}")
            _outcomes[key] = False
    return _outcomes[key]


class _Described:
    """A tensor's type and sizes, or a number."""

    def __init__(self, value: Any) -> None:
        self.tensor = isinstance(value, torch.Tensor)
        self.dtype = value.dtype if self.tensor else None
        self.numbers = [_number(each) for each in (*value.shape, *value.stride())] if self.tensor else [_number(value)]

    def __repr__(self) -> str:
        return f"{self.dtype}{self.numbers}"

    def drawn(self, generator: torch.Generator) -> Any:
        """Return a tensor of this kind, or the number."""
        if not self.tensor:
            return self.numbers[0]
        half = len(self.numbers) // 2
        made = torch.empty_strided(self.numbers[:half], self.numbers[half:], dtype=self.dtype).zero_()
        if made.is_floating_point() or made.is_complex():
            made.copy_(torch.randn(made.shape, dtype=torch.complex128, generator=generator).to(made.dtype))
        return made


def _number(value: Any) -> Any:
    """Return a number, the example of a symbolic number, or its lower bound."""
    if not isinstance(value, torch.SymInt):
        return value
    if value.node.hint is not None:
        return int(value.node.hint)
    return max(1, int(bound_sympy(value.node.expr, value.node.shape_env.var_to_range).lower))


def _agrees(node: Node, args: Any, kwargs: Any) -> bool:
    generator = torch.Generator().manual_seed(0)
    leaves, spec = pytree.tree_flatten((args, kwargs))
    values = [each.drawn(generator) if isinstance(each, _Described) else each for each in leaves]
    args, kwargs = pytree.tree_unflatten(values, spec)
    expected = pytree.tree_leaves(node.target._op(*args, **kwargs))
    program = EdgeProgramManager({"forward": _alone(node.target, values, spec)}, None, _CONFIG).to_executorch()
    given = [each for each in values if isinstance(each, torch.Tensor)]
    made = executorch_private.bindings()._load_for_executorch_from_buffer(program.buffer).forward(given)
    return all(_same(one, other) for one, other in zip(made, expected, strict=True))


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.dtype == other.dtype and torch.allclose(one, other, _DIFFERENCE, _DIFFERENCE, equal_nan=True)


def _alone(target: Any, values: Sequence[Any], spec: Any) -> ExportedProgram:
    """Return the edge program of one operator, whose inputs are the tensors among its arguments."""
    graph, mode = Graph(), FakeTensorMode()
    nodes, fakes = [], []
    for each in values:
        if not isinstance(each, torch.Tensor):
            nodes.append(each)
            fakes.append(each)
            continue
        placeholder = graph.placeholder(f"x{len(nodes)}")
        placeholder.meta["val"] = mode.from_tensor(each)
        nodes.append(placeholder)
        fakes.append(placeholder.meta["val"])
    args, kwargs = pytree.tree_unflatten(nodes, spec)
    call = graph.call_function(target, args, kwargs)
    args, kwargs = pytree.tree_unflatten(fakes, spec)
    with mode:
        call.meta["val"] = target._op(*args, **kwargs)
    results = [call]
    if isinstance(call.meta["val"], (list, tuple)):
        results = []
        for place, value in enumerate(call.meta["val"]):
            item = graph.call_function(getitem, (call, place))
            item.meta["val"] = value
            results.append(item)
    graph.output(tuple(results))
    inputs = [each for each in graph.nodes if each.op == "placeholder"]
    signature = ExportGraphSignature(
        [InputSpec(InputKind.USER_INPUT, TensorArgument(name=each.name), None) for each in inputs],
        [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(name=each.name), None) for each in results],
    )
    specs = [pytree.tree_flatten(each)[1] for each in ((tuple(inputs), {}), tuple(results))]
    return ExportedProgram(
        root=GraphModule({}, graph),
        graph=graph,
        graph_signature=signature,
        state_dict={},
        range_constraints={},
        module_call_graph=[ModuleCallEntry("", ModuleCallSignature([], [], *specs))],
        constants={},
        verifiers=[EXIREdgeDialectVerifier(_CONFIG, class_only=True)],
    )
