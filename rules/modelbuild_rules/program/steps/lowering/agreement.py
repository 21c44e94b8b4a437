"""Check that a partitioned program computes the same as the original, both in eager mode on example inputs.

Each partition runs twice on the results of the nodes before it: as its backend's compiler receives it, and as its
original nodes. So a difference is due to the partition, and the message names it, its first wrong node, and the
attribute that leaves the node to the next backend. Results that depend on a choice between nearly equal values, such as
topk's indices, are compared as sets (model/steps/calls/differences.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from executorch.exir.delegate import executorch_call_delegate
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree

from modelbuild.step import StepError
from modelbuild_rules.backend_api.steps.nodes import op_name, origin
from modelbuild_rules.model.steps.calls.differences import equal_choices
from modelbuild_rules.model.steps.calls.facts import comparison
from modelbuild_rules.model.steps.calls.recorded import buffers, restore
from modelbuild_rules.node_references import node_reference
from modelbuild_rules.program.steps.lowering.stack import StackBackend
from modelbuild_rules.program.steps.partitions.placeholder import partition_of

TOLERANCES = {torch.float64: 1e-4, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 4e-2}
"""The maximum difference, relative to a result's greatest magnitude, of a program that computes in the type."""


def check_agreement(
    original: ExportedProgram,
    partitioned: ExportedProgram,
    backend: Callable[[str], StackBackend],
    inputs: Sequence[torch.Tensor],
) -> None:
    """Raise StepError if a partition, or the whole program, computes different results.

    partitioned  the edge program whose delegates are placeholders
    backend      returns the backend of a partition by id
    """
    with torch.no_grad():
        results = _user_outputs(
            partitioned, _Partitioned(partitioned.graph_module, backend).run(*flat_inputs(partitioned, inputs))
        )
        expected = _results(original, inputs)
    precision = _precision(original)
    choices = comparison(original)["choices"]
    for place, (result, wanted) in enumerate(zip(results, expected, strict=True)):
        if not isinstance(wanted, torch.Tensor) or result.shape != wanted.shape:
            continue  # the number of rows may depend on the last bit of a comparison
        difference = _difference(result, wanted, precision, choices[place])
        if difference:
            raise StepError(
                f"output {place} of the partitioned program differs from the model's on example inputs: {difference}"
            )


class _Partitioned(torch.fx.Interpreter):
    def __init__(self, module: torch.fx.GraphModule, backend: Callable[[str], StackBackend]) -> None:
        super().__init__(module)
        self.extra_traceback = False  # torch would add the delegate's call to the message of a StepError
        self._backend = backend

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if target is not executorch_call_delegate:
            return super().call_function(target, args, kwargs)
        module, *given = args
        program = module.original_module
        tensors = _Tensors(program.graph_module)
        results = list(tensors.run(*flat_inputs(program, given)))
        id = partition_of(module.processed_bytes) or ""
        backend = self._backend(id)
        difference = _compiled_difference(program, results, given, backend)
        if difference:
            raise StepError(
                f"output {difference[0]} of partition {id}, as {module.backend_id} compiles it, differs from that of"
                f" its {_count(program)} nodes on example inputs: {difference[1]}"
                f"{_first_wrong(program, tensors.by_name, backend)}"
            )
        return _user_outputs(program, results)  # a partition keeps the state that it changes


class _Tensors(torch.fx.Interpreter):
    """Keeps the result of each node in `by_name`."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module)
        self.by_name: dict[str, Any] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        result = self.by_name[n.name] = super().run_node(n)
        return result


def _compiled_difference(
    program: ExportedProgram, results: Sequence[Any], given: Sequence[Any], backend: StackBackend
) -> tuple[int, str] | None:
    """Return the first output that differs in the compiler's form of a partition, and the difference; None if no output
    differs."""
    form = backend.partitioning.eager(program, backend.attributes)
    if form is None:
        return None
    eager, least = form
    tolerance = max(least, _precision(program))
    choices = comparison(program)["choices"]
    found = pytree.tree_leaves(eager(*given))
    for place, (wanted, result, chosen) in enumerate(zip(results, found, choices, strict=True)):
        difference = _difference(result, wanted, tolerance, chosen)
        if difference:
            return place, difference
    return None


def _first_wrong(program: ExportedProgram, tensors: Mapping[str, Any], backend: StackBackend) -> str:
    """Return the first node with which a partition differs, and the way to exclude the node; '' if none is found."""

    def agrees(part: ExportedProgram) -> bool:
        given = [tensors[name] for name in part.graph_signature.user_inputs]
        results = list(torch.fx.Interpreter(part.graph_module).run(*flat_inputs(part, given)))
        return _compiled_difference(part, results, given, backend) is None

    names = backend.partitioning.at_fault(program, agrees)[:1]
    nodes = {node.name: node for node in program.graph.nodes}
    return "".join(
        f"; the first wrong node is {node_reference(name, origin(nodes[name]))} ({op_name(nodes[name])});"
        f' {backend.partitioning.excluding} = ["{op_name(nodes[name])}"] leaves it to the next backend'
        for name in names
    )


def flat_inputs(program: ExportedProgram, inputs: Sequence[Any]) -> list[Any]:
    """Return all inputs of a program's graph: its stored tensors and the given inputs."""
    given = iter(inputs)
    stored: Mapping[str, Any] = {**program.constants, **program.state_dict}
    return [
        next(given) if spec.kind == InputKind.USER_INPUT else stored[str(spec.target)].clone()
        for spec in program.graph_signature.input_specs
    ]


def _results(program: ExportedProgram, inputs: Sequence[torch.Tensor]) -> list[Any]:
    """Return the results of a program. Restores the initial values of its buffers, which a run changes."""
    module = program.module(check_guards=False)
    before = buffers(module)
    results = pytree.tree_leaves(module(*[each.clone() for each in inputs]))
    found = [each.clone() if isinstance(each, torch.Tensor) else each for each in results]
    restore(module, before)
    return found


def input_types(program: ExportedProgram) -> list[torch.dtype]:
    """Return the types of a program's inputs."""
    nodes = {node.name: node for node in program.graph.nodes}
    return [nodes[name].meta["val"].dtype for name in program.graph_signature.user_inputs]


def _user_outputs(program: ExportedProgram, results: Sequence[Any]) -> list[Any]:
    kinds = [spec.kind for spec in program.graph_signature.output_specs]
    return [result for kind, result in zip(kinds, results, strict=True) if kind == OutputKind.USER_OUTPUT]


def _precision(program: ExportedProgram) -> float:
    """Return the tolerance of the least precise type that a program computes in; its outputs may be of another type."""
    dtypes = {getattr(node.meta.get("val"), "dtype", None) for node in program.graph.nodes}
    return max((tolerance for dtype, tolerance in TOLERANCES.items() if dtype in dtypes), default=0.0)


def _difference(result: Any, wanted: Any, least: float, chosen: bool) -> str:
    """Return how two results differ, as text; '' if they are equal within tolerance. `chosen`: they depend on a choice
    between values that may be nearly equal."""
    if not isinstance(wanted, torch.Tensor):
        return "" if result == wanted else f"{result}, expected {wanted}"
    difference = _tensor_difference(result, wanted, least)
    if not difference or not chosen or result.dtype != wanted.dtype or wanted.is_complex():
        return difference
    tolerance = max(least, TOLERANCES.get(wanted.dtype, 0.0))
    return "" if equal_choices(_array(result), _array(wanted), tolerance) else difference


def _array(tensor: torch.Tensor) -> Any:
    return (tensor.double() if tensor.is_floating_point() else tensor).numpy()


def _tensor_difference(result: Any, wanted: torch.Tensor, least: float) -> str:
    if result.shape != wanted.shape or result.dtype != wanted.dtype:
        return f"{_type(result)}, expected {_type(wanted)}"
    if not wanted.dtype.is_floating_point:
        wrong = int((result != wanted).sum())
        return f"{wrong} of {wanted.numel()} values differ" if wrong else ""
    one, other = result.double(), wanted.double()
    finite = other.isfinite()
    if not torch.equal(one[~finite].nan_to_num(), other[~finite].nan_to_num()) or not one[finite].isfinite().all():
        return "infinities or NaNs are at different positions"
    allowed = (
        max(least, TOLERANCES[wanted.dtype]) * max(1e-3, float(other[finite].abs().amax())) if finite.any() else 0.0
    )
    found = float((one - other)[finite].abs().amax()) if finite.any() else 0.0
    return f"they differ by {found:.3g}, expected at most {allowed:.3g}" if found > allowed else ""


def _type(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def _count(program: ExportedProgram) -> int:
    return sum(node.op == "call_function" for node in program.graph.nodes)
