"""Checks that what no backend took can run on ExecuTorch's portable kernels, and is meant to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from executorch.exir import EdgeProgramManager, ExecutorchBackendConfig, ExecutorchProgramManager

from modelbuild.errors import did_you_mean
from modelbuild.step import StepError
from modelbuild_rules.steps._delegation import Fact, computing
from modelbuild_rules.steps._executorch import CHECKED

_SHOWN = 5


def check_allowed(facts: Iterable[Fact], allowed: Sequence[str] | None, present: bool) -> None:
    """Raises StepError when nodes are left and the stack has no portable backend, or one that does not allow them."""
    left = [fact for fact in facts if fact.tag is None and not fact.op.startswith("operator.")]
    if not present and left:
        raise StepError(
            f"no backend of the stack takes {_listed(left)}; expected a last backend of type 'portable', or a backend"
            " that takes them"
        )
    for op in allowed or ():
        if not _exists(op):
            near = did_you_mean(op, {fact.op for fact in left} or _all_operators())
            raise StepError(f"ops of the portable backend: no operator '{op}'; expected one like aten.add.Tensor{near}")
    others = [fact for fact in left if allowed is not None and fact.op not in allowed]
    if others:
        raise StepError(
            f"{_listed(others)} would run on portable kernels; expected only operators in the portable backend's 'ops'"
        )


def to_executorch(edge: EdgeProgramManager, config: ExecutorchBackendConfig, facts: Sequence[Fact]) -> Any:
    """The program in ExecuTorch's form. Raises StepError for operators that have no portable kernel."""
    try:
        program = edge.to_executorch(config)
    except RuntimeError as error:
        if not str(error).startswith("Missing out variants"):
            raise
        left = [fact for fact in facts if fact.tag is None]
        missing = [fact for fact in left if f"'{_qualified(fact.op)}'" in str(error)]
        raise StepError(_no_kernel(missing or left)) from None
    _check_kernels(program, facts)
    return program


def _check_kernels(program: ExecutorchProgramManager, facts: Sequence[Fact]) -> None:
    from executorch.extension.pybindings._portable_lib import _get_operator_names

    kernels = set(_get_operator_names())
    by_name = {fact.name: fact for fact in facts}
    for plan in program.executorch_program.execution_plan:
        used = {f"{op.name}.{op.overload}" if op.overload else op.name for op in plan.operators}
        missing = used - kernels
        if not missing:
            continue
        nodes = computing(program.exported_program(plan.name).graph_module)
        found = [by_name[name] for name, node in nodes if _kernel(node) in missing and name in by_name]
        raise StepError(_no_kernel(found) if found else f"no portable kernel {', '.join(sorted(missing))}")


def _kernel(node: Any) -> str:
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return ""
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else str(schema.name)


def _no_kernel(facts: Sequence[Fact]) -> str:
    return (
        f"ExecuTorch {CHECKED} has no portable kernel for {_listed(facts)}; expected a backend of the stack to take it"
    )


def _listed(facts: Sequence[Fact]) -> str:
    """Operators with a node of each, one an operator."""
    each = list({fact.op: fact for fact in reversed(facts)}.values())[::-1]
    shown = [f"{fact.op} (node {fact.name}{_where(fact)})" for fact in each[:_SHOWN]]
    more = [f"{len(each) - _SHOWN} more operators"] if len(each) > _SHOWN else []
    return ", ".join(shown + more)


def _where(fact: Fact) -> str:
    return f" of module {fact.module}" if fact.module else ""


def _qualified(op: str) -> str:
    """`aten::add` of `aten.add.Tensor`."""
    namespace, name, *_ = op.split(".")
    return f"{namespace}::{name}"


def _exists(op: str) -> bool:
    return op in _all_operators()


def _all_operators() -> set[str]:
    """Every operator that torch knows, as `aten.add.Tensor`."""
    import torch

    names = (name.replace("::", ".") for name in torch._C._dispatch_get_all_op_names())
    return {name if name.count(".") == 2 else f"{name}.default" for name in names}
