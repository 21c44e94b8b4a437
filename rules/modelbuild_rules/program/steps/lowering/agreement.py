"""Check that a partitioned program computes the same as the original, both in eager mode on example inputs.

Each partition runs twice on the results of the nodes before it: as its backend's compiler receives it, and as its
original nodes. So a difference is due to the partition, and the message names it.
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
from modelbuild_rules.program.steps.partitions.placeholder import partition_of

Eager = Callable[..., Any]

TOLERANCES = {torch.float64: 1e-4, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 4e-2}
"""The maximum difference, relative to a result's greatest magnitude, of a program that computes in the type."""


def check_agreement(
    original: ExportedProgram,
    partitioned: ExportedProgram,
    compiled: Callable[[str, ExportedProgram], tuple[Eager, float] | None],
    inputs: Sequence[torch.Tensor],
) -> None:
    """Raise StepError if a partition, or the whole program, computes different results.

    partitioned  the edge program whose delegates are placeholders
    compiled     returns for a partition (id, program) its form in the compiler and that form's minimum tolerance; None
                 if the form is the same program
    """
    with torch.no_grad():
        results = _user_outputs(
            partitioned, _Partitioned(partitioned.graph_module, compiled).run(*flat_inputs(partitioned, inputs))
        )
        expected = pytree.tree_leaves(original.module(check_guards=False)(*[each.clone() for each in inputs]))
    precision = _precision(original)
    for place, (result, wanted) in enumerate(zip(results, expected, strict=True)):
        if not isinstance(wanted, torch.Tensor) or result.shape != wanted.shape:
            continue  # the number of rows may depend on the last bit of a comparison
        difference = _difference(result, wanted, precision)
        if difference:
            raise StepError(
                f"output {place} of the partitioned program differs from the model's on example inputs: {difference}"
            )


class _Partitioned(torch.fx.Interpreter):
    def __init__(self, module: torch.fx.GraphModule, compiled: Callable[..., Any]) -> None:
        super().__init__(module)
        self._compiled = compiled

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if target is not executorch_call_delegate:
            return super().call_function(target, args, kwargs)
        module, *given = args
        program = module.original_module
        results = list(torch.fx.Interpreter(program.graph_module).run(*flat_inputs(program, given)))
        id = partition_of(module.processed_bytes) or ""
        other = self._compiled(id, program)
        if other is not None:
            eager, least = other
            for place, (wanted, result) in enumerate(zip(results, pytree.tree_leaves(eager(*given)), strict=True)):
                difference = _difference(result, wanted, max(least, _precision(program)))
                if difference:
                    raise StepError(
                        f"output {place} of partition {id}, as {module.backend_id} compiles it, differs from that of"
                        f" its {_count(program)} nodes on example inputs: {difference}"
                    )
        return results


def flat_inputs(program: ExportedProgram, inputs: Sequence[Any]) -> list[Any]:
    """Return all inputs of a program's graph: its stored tensors and the given ones."""
    given = iter(inputs)
    stored: Mapping[str, Any] = {**program.constants, **program.state_dict}
    return [
        next(given) if spec.kind == InputKind.USER_INPUT else stored[str(spec.target)].clone()
        for spec in program.graph_signature.input_specs
    ]


def _user_outputs(program: ExportedProgram, results: Sequence[Any]) -> list[Any]:
    kinds = [spec.kind for spec in program.graph_signature.output_specs]
    return [result for kind, result in zip(kinds, results, strict=True) if kind == OutputKind.USER_OUTPUT]


def _precision(program: ExportedProgram) -> float:
    """Return the tolerance of the least precise type that a program computes in; its outputs may be of another."""
    dtypes = {getattr(node.meta.get("val"), "dtype", None) for node in program.graph.nodes}
    return max((tolerance for dtype, tolerance in TOLERANCES.items() if dtype in dtypes), default=0.0)


def _difference(result: Any, wanted: Any, least: float) -> str:
    """Return how two results differ, as text; '' if they are equal within tolerance."""
    if not isinstance(wanted, torch.Tensor):
        return "" if result == wanted else f"{result}, expected {wanted}"
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
