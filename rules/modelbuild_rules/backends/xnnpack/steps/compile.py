"""Compile a partition for XNNPACK, without the values of its weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from executorch.backends.xnnpack.utils.quant_utils import is_dequant
from executorch.backends.xnnpack.xnnpack_preprocess import XnnpackBackend
from executorch.exir.dialects._ops import ops
from torch.fx import Node

from modelbuild.step import Progress, Step, ignore_progress
from modelbuild_rules.backend_api.steps.compile import compile_structure, preprocess
from modelbuild_rules.backend_api.steps.compiled import Compiled
from modelbuild_rules.backend_api.steps.kept_results import computed_once
from modelbuild_rules.backend_api.steps.storing import ValuesNeeded
from modelbuild_rules.backends.xnnpack.steps.large_windows import with_small_windows
from modelbuild_rules.backends.xnnpack.steps.layouts import layouts_apart
from modelbuild_rules.backends.xnnpack.steps.nonfinite import with_nonfinite_numbers
from modelbuild_rules.backends.xnnpack.steps.normalization import without_norms
from modelbuild_rules.backends.xnnpack.steps.patterns import needed_patterns
from modelbuild_rules.backends.xnnpack.steps.progress import shown
from modelbuild_rules.backends.xnnpack.steps.shared_values import unshare_values


def run(step: Step) -> None:
    compile_structure(step, partial(_compile_structure, progress=step.progress))


def _compile_structure(
    program: Any, specs: Sequence[Any], attributes: Mapping[str, Any], progress: Progress
) -> Compiled:
    if any(is_dequant(node) and isinstance(node.args[1], Node) for node in program.graph.nodes):
        raise ValuesNeeded("executorch checks the scales of quantized weights")
    return compile(program, specs, attributes, progress)


def compile(
    program: Any, specs: Sequence[Any], attributes: Mapping[str, Any], progress: Progress = ignore_progress
) -> Compiled:
    """Return XNNPACK's serialized graph. Its packed weights are named data that may be outside the program."""
    rewrite(program)
    with needed_patterns(program), layouts_apart(), shown(progress), computed_once():
        return preprocess(XnnpackBackend, program, specs)


def rewrite(program: Any) -> None:
    """Replace operators that executorch's code for XNNPACK, or XNNPACK, computes differently from eager mode, in place.

    An operator's debug handle is its position among the partition's nodes, counted from 1. Operators that replace
    another operator have its handle.
    """
    nodes = [node for node in program.graph.nodes if node.op == "call_function"]
    for handle, node in enumerate(nodes, 1):
        node.meta["debug_handle"] = handle
    for node in program.graph.find_nodes(op="call_function", target=ops.edge.aten.hardtanh.default):
        node.args = (*node.args, *(-1.0, 1.0)[len(node.args) - 1 :])  # executorch expects both bounds or no bounds
    unshare_values(program)
    without_norms(program)
    with_small_windows(program)
    with_nonfinite_numbers(program)
    for spec, node in zip(program.graph_signature.output_specs, program.graph.output_node().args[0], strict=True):
        spec.arg.name = node.name
