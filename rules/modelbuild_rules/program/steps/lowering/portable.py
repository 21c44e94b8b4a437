"""Check that the remaining nodes can, and may, run on ExecuTorch's portable kernels or on a kernel library's."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from executorch.exir import EdgeProgramManager, ExecutorchBackendConfig, ExecutorchProgramManager

from modelbuild.errors import did_you_mean
from modelbuild.step import StepError
from modelbuild_rules.backend_api.steps import executorch_private
from modelbuild_rules.backend_api.steps.aten import operator_names
from modelbuild_rules.backend_api.steps.nodes import computing
from modelbuild_rules.kernels.steps import builtin
from modelbuild_rules.node_references import node_reference
from modelbuild_rules.operators.steps import custom
from modelbuild_rules.program.steps.lowering.delegation import Fact
from modelbuild_rules.program.steps.lowering.rewrites.volumes import is_volume
from modelbuild_rules.program.steps.lowering.stack import Stack
from modelbuild_rules.program.steps.lowering.trial import runs

if TYPE_CHECKING:
    from modelbuild_rules.program.documents import ManifestKernels

SHOWN = 3
"""The maximum number of operators that an error message of one line names."""

_OTHERWISE = {
    "[": "the convolution outside of control flow, or ",
    "16": "another type, such as float32, or ",
    "float": "another type, such as float32, or ",
}
"""Advice by words in the types of an unsupported node."""

# The higher-order operators that executorch emits (executorch/exir/emit/_emitter.py).
_CONTROL_FLOW = ("cond", "map_impl", "scan", "executorch_call_delegate")


def allowed_problem(facts: Iterable[Fact], stack: Stack) -> str:
    """Return the error message for remaining nodes if the stack has no portable backend, or its portable backend
    forbids them; '' if all are allowed."""
    left = [fact for fact in facts if fact.tag is None and not fact.op.startswith("operator.")]
    if stack.rest is None and left:
        return (
            f"no backend of the stack takes {_listed(left)}; expected a last backend of type 'portable', or a backend"
            " that takes them"
        )
    for op in stack.ops or ():
        if op not in operator_names():
            near = did_you_mean(op, {fact.op for fact in left} or operator_names())
            return f"ops of the portable backend: no operator '{op}'; expected one like aten.add.Tensor{near}"
    others = [fact for fact in left if stack.ops is not None and fact.op not in stack.ops]
    allowed = "would run on portable kernels; expected only operators in the portable backend's 'ops'"
    return f"{_listed(others)} {allowed}" if others else ""


def check_kernels(graph_module: Any, facts: Iterable[Fact], stack: Stack) -> None:
    """Raise StepError if a remaining node may not run on portable kernels, or has dtypes that its kernel does not
    support.

    executorch's edge dialect lists supported dtypes of each operator (exir/dialects/edge/edge.yaml).
    """
    by_name = {fact.name: fact for fact in facts}
    if problem := allowed_problem(by_name.values(), stack):
        raise StepError(problem)
    for name, node in computing(graph_module):
        if types := wrong_types(node):
            raise StepError(dtype_text(by_name[name], types))


def wrong_types(node: Any) -> str:
    """Return the types of a node's tensors, or the sizes of a convolution of volumes, if its portable kernel does not
    support them; else ''. A node that is not in executorch's list is tried, unless no kernel of it can exist."""
    unlisted = unlisted_types(node)
    return unlisted if unlisted and _out_variant(node) is not None and not runs(node) else ""


def unlisted_types(node: Any) -> str:
    """Return the types of a node's tensors if executorch does not list them for its portable kernel; else ''. It lists
    no sizes: a convolution of volumes counts as unlisted."""
    if is_volume(node):
        x, weight = (list(each.meta["val"].shape) for each in node.args[:2])
        return f"input {x}, weight {weight}"
    constraint = getattr(getattr(node.target, "_schema", None), "dtype_constraint", None)
    types = {} if constraint is None else _tensor_types(node)
    if constraint is None or not types or constraint.validate(types):
        return ""
    shown = ", ".join(f"{name} {str(dtype).removeprefix('torch.')}" for name, dtype in types.items())
    return shown.replace("__ret_0", "result")


def dtype_text(fact: Fact, types: str) -> str:
    """Return the error message for a node with types that its portable kernel does not support."""
    kind = "sizes" if "[" in types else "types"
    other = next((text for word, text in _OTHERWISE.items() if word in types), "")
    return (
        f"{executorch_private.name()}'s portable kernel of {_listed([fact])} does not support these {kind}: {types};"
        f" expected {other}a backend of the stack to take it"
    )


def _tensor_types(node: Any) -> dict[str, Any]:
    """Return the dtypes of an operator's tensors by the schema's names; unnamed results are __ret_0, __ret_1, ..."""
    schema = node.target._schema
    types = {}
    for index, argument in enumerate(schema.arguments):
        positional = not argument.kwarg_only and index < len(node.args)
        types[argument.name] = _dtype(node.args[index] if positional else node.kwargs.get(argument.name))
    value = node.meta.get("val")
    values = value if isinstance(value, (list, tuple)) and len(schema.returns) > 1 else [value]
    for index, (result, made) in enumerate(zip(schema.returns, values, strict=False)):
        types[result.name or f"__ret_{index}"] = _dtype(made)
    return {name: dtype for name, dtype in types.items() if dtype is not None}


def _dtype(value: Any) -> Any:
    """Return the dtype of a tensor, of a tensor-computing node, or of the first item of a list; else None."""
    if isinstance(value, (list, tuple)):
        return _dtype(value[0]) if value else None
    return getattr(getattr(value, "meta", {}).get("val", value), "dtype", None)


def to_executorch(edge: EdgeProgramManager, config: ExecutorchBackendConfig, facts: Sequence[Fact]) -> Any:
    """Return the ExecuTorch program. Raises StepError for operators without a kernel."""
    kernels = kernel_names()
    by_name = {fact.name: fact for fact in facts}
    try:
        program = edge.to_executorch(config)
    except Exception:
        nodes = list(computing(edge.exported_program().graph_module))
        loops = [by_name[name] for name, node in nodes if name in by_name and _is_unknown_control_flow(node)]
        if loops:
            raise StepError(
                f"{executorch_private.name()} can't run {_listed(loops)}; expected control flow by torch.cond or"
                " torch.map, or a Python loop of a known number of rounds"
            ) from None
        missing = [by_name[name] for name, node in nodes if name in by_name and not has_kernel(node, kernels)]
        if missing:
            raise StepError(kernel_text(missing)) from None
        raise
    _check_emitted(program, kernels, by_name)
    return program


def _is_unknown_control_flow(node: Any) -> bool:
    return isinstance(node.target, torch._ops.HigherOrderOperator) and node.target.name() not in _CONTROL_FLOW


def kernel_names() -> frozenset[str]:
    """Return the names of all kernels outside partitions, as `aten::add.out`."""
    return frozenset(executorch_private.bindings()._get_operator_names()) | builtin.OPERATORS | custom.kernels()


def has_kernel(node: Any, kernels: Collection[str]) -> bool:
    """Return whether an edge operator's out variant has a portable kernel; True for any other target."""
    if not hasattr(node.target, "to_out_variant"):
        return True
    operator = _out_variant(node)
    return operator is not None and _kernel(operator) in kernels


def _out_variant(node: Any) -> Any:
    """Return the operator that an edge operator's kernel computes; None if there is none."""
    try:
        return node.target.to_out_variant()
    except RuntimeError:
        return None


def _check_emitted(program: ExecutorchProgramManager, kernels: Collection[str], by_name: Mapping[str, Fact]) -> None:
    """Raise StepError if an emitted operator has no portable kernel. Passes may have replaced the graph's operators."""
    for plan in program.executorch_program.execution_plan:
        missing = _used(plan).difference(kernels)
        if missing:
            nodes = computing(program.exported_program(plan.name).graph_module)
            found = [by_name[name] for name, node in nodes if _kernel(node.target) in missing and name in by_name]
            raise StepError(kernel_text(found) if found else f"no portable kernel {', '.join(sorted(missing))}")


def needed_libraries(program: ExecutorchProgramManager) -> list[ManifestKernels]:
    """Return the kernel libraries that a program needs in addition to ExecuTorch's own."""
    used = {name for plan in program.executorch_program.execution_plan for name in _used(plan)}
    return [*builtin.needed(used), *custom.needed(used)]


def _used(plan: Any) -> set[str]:
    """Return the operators that a method calls, as `aten::add.out`."""
    return {f"{op.name}.{op.overload}" if op.overload else op.name for op in plan.operators}


def _kernel(operator: Any) -> str:
    """Return the registered name of an operator's kernel: `aten::add.out`."""
    schema = getattr(operator, "_schema", None)
    if schema is None:
        return ""
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else str(schema.name)


def kernel_text(facts: Sequence[Fact]) -> str:
    """Return the error message for nodes without a portable kernel."""
    name = executorch_private.name()
    return f"{name} has no portable kernel for {_listed(facts)}; expected a backend of the stack to take it"


def _listed(facts: Sequence[Fact]) -> str:
    """Return a text that lists operators, each with one of its nodes."""
    each = list({fact.op: fact for fact in reversed(facts)}.values())[::-1]
    shown = [f"{fact.op} ({about(fact)})" for fact in each[:SHOWN]]
    rest = len(each) - SHOWN
    more = [f"{rest} more operator{'s' * (rest > 1)}"] if rest > 0 else []
    return ", ".join(shown + more)


def about(fact: Fact) -> str:
    """Return a node's place, and why each backend refused it."""
    module = f" of module {fact.module}" if fact.module else ""
    return "; ".join(
        [
            f"{node_reference(fact.name, fact.origin)}{module}",
            *(f"{each['backend']}: {each['why']}" for each in fact.refused),
        ]
    )
