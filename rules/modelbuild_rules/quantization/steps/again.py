"""Export a program again after its graph was changed, with the dynamic dimensions that it had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sympy
import torch
from torch.export import Dim, ExportedProgram

from modelbuild.step import StepError
from modelbuild_rules.model.steps.eager.entry import first_line


def export_again(
    module: torch.fx.GraphModule, before: ExportedProgram, examples: Sequence[torch.Tensor]
) -> tuple[ExportedProgram, dict[str, str]]:
    """Return the exported program, and the node of the module's graph that each of its nodes was made from. Raises
    StepError if torch.export refuses it."""
    shapes = _dynamic_shapes(before)
    try:
        program = torch.export.export(module, tuple(examples), dynamic_shapes=shapes, strict=False)
        if any(node.op == "call_module" for node in module.graph.nodes):
            program = program.run_decompositions({})  # converts torchao's tensors to plain tensors
    except Exception as error:
        raise StepError(f"torch.export refuses the quantized model: {first_line(error)}") from error
    origins = {}
    for node in program.graph.nodes:
        sources = node.meta.get("from_node")
        if node.op == "call_function" and sources:
            origins[node.name] = str(sources[-1].name)
    return program, origins


def _dynamic_shapes(program: ExportedProgram) -> tuple[Mapping[int, Any], ...] | None:
    """Return the dynamic dimensions of a program's inputs for torch.export, related as in the program."""
    values = {node.name: node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"}
    shapes = [values[name].shape for name in program.graph_signature.user_inputs]
    dims: dict[Any, Any] = {}
    found = tuple(
        {axis: _dim(size.node.expr, program, dims) for axis, size in enumerate(shape) if isinstance(size, torch.SymInt)}
        for shape in shapes
    )
    return found if any(found) else None


def _dim(expr: Any, program: ExportedProgram, dims: dict[Any, Any]) -> Any:
    """Return the dimension of a size: a symbol, or a multiple of a symbol plus a number. torch.export finds other sizes
    itself."""
    symbols = sorted(expr.free_symbols, key=str)
    if len(symbols) != 1 or sympy.degree(expr, symbols[0]) != 1:
        return Dim.AUTO
    (symbol,) = symbols
    factor, plus = int(expr.coeff(symbol)), int(expr.subs(symbol, 0))
    if symbol not in dims:
        bounds = program.range_constraints[symbol]
        limits = {"min": bounds.lower, "max": bounds.upper}
        dims[symbol] = Dim(str(symbol), **{name: int(each) for name, each in limits.items() if each.is_finite})
    dim = dims[symbol] if factor == 1 else factor * dims[symbol]
    return dim + plus if plus else dim
