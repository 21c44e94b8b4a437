"""Operators and argument values of a serialized graph, as JSON and back. Values are data; none is evaluated as code.

Private names used, checked on torch 2.14.0 and executorch 1.5.1: torch._ops (OpOverload, HigherOrderOperator),
executorch.exir.dialects._ops.ops, executorch.exir.dialects.edge._ops.EdgeOpOverload (its _op). None is patched.
"""

from __future__ import annotations

import importlib
import math
import operator
from collections.abc import Callable
from typing import Any

import torch

from modelbuild_rules.operators.steps import custom, detection_operators, torchvision_operators

Json = Any

# Operator namespaces, and the module that registers the operators of each.
_LIBRARIES = {
    "aten": "torch",
    "prims": "torch",
    "higher_order": "torch",
    "quantized_decomposed": "torch.ao.quantization.fx._decomposed",
    "dim_order_ops": "executorch.exir.passes.dim_order_ops_registry",
    "torchao": "torchao",
    # Steps whose programs contain it name this module as a plug-in.
    "modelbuild": "modelbuild_rules.model.steps.exported.compiled_part",
}
# Namespaces of operators with kernels of modelbuild, and the functions that register them.
_KERNEL_LIBRARIES = {
    torchvision_operators.NAMESPACE: torchvision_operators.register,
    detection_operators.NAMESPACE: detection_operators.register,
}
# Functions in graphs that are not operators: arithmetic on sizes (in torch, functions named sym_*).
_FUNCTIONS = {"operator": operator, "math": math, "torch": torch}
_TORCH_VALUES: tuple[tuple[str, type], ...] = (
    ("dtype", torch.dtype),
    ("layout", torch.layout),
    ("memory_format", torch.memory_format),
)


def write_operator(target: Any) -> str:
    """Return an operator's name, such as `aten.add.Tensor`, `edge:aten.add.Tensor`, `higher_order.cond` or
    `operator.getitem`. Raises ValueError for an operator that a program can't contain."""
    if isinstance(target, torch._ops.OpOverload):
        return _known(str(target))
    if isinstance(target, torch._ops.HigherOrderOperator):
        return _known(f"higher_order.{target.name()}")
    if _is_edge(target):
        return "edge:" + _known(str(target._op))
    module = str(getattr(target, "__module__", "")).removeprefix("_")
    name = getattr(target, "__name__", "")
    if _function(module, name) is target:
        return f"{module}.{name}"
    raise ValueError(f"the operator {target} cannot be part of a program; expected PyTorch's own operators only")


def read_operator(written: str) -> Any:
    """Return the operator of a name. Raises ValueError if it is not registered."""
    dialect, _, name = written.rpartition(":")
    function = _function(*name.split(".", 1))
    if function is not None:
        return function
    namespace = _known(name).partition(".")[0]
    if namespace in _KERNEL_LIBRARIES:
        _KERNEL_LIBRARIES[namespace]()
    elif namespace in _LIBRARIES:
        importlib.import_module(_LIBRARIES[namespace])
    found: Any = torch.ops
    if dialect == "edge":
        from executorch.exir.dialects._ops import ops

        found = ops.edge
    try:
        for part in name.split("."):
            found = getattr(found, part)
    except AttributeError:
        raise ValueError(f"the operator {name} does not exist in torch {torch.__version__}") from None
    return found


def _function(module: str, name: str) -> Any:
    if module not in _FUNCTIONS or (module == "torch" and not name.startswith("sym_")):
        return None
    return getattr(_FUNCTIONS[module], name, None)


def _known(name: str) -> str:
    if name.startswith(f"{torchvision_operators.NAMESPACE}."):
        if name not in torchvision_operators.NAMES and not custom.is_declared(name):
            raise ValueError(
                f"no kernel computes the operator {name}; expected one of"
                f" {', '.join(sorted(torchvision_operators.NAMES))}, or a kernel_library that computes it"
            )
    elif name.partition(".")[0] not in {*_LIBRARIES, *_KERNEL_LIBRARIES} and not custom.is_declared(name):
        raise ValueError(
            f"the operator {name} is not PyTorch's; expected operators of PyTorch, or of a kernel_library that"
            " the model's attribute 'kernels' names"
        )
    return name


def _is_edge(target: Any) -> bool:
    """Return whether a target is an operator of the edge dialect, without importing executorch, which takes seconds."""
    return type(target).__name__ == "EdgeOpOverload" and isinstance(target._op, torch._ops.OpOverload)


def write_value(value: Any, node: Callable[[Any], Json]) -> Json:
    """Return an argument as JSON; a value that JSON lacks becomes {type: ...}. `node` writes graph nodes."""
    if isinstance(value, torch.fx.Node):
        return node(value)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, complex):
        return {"complex": [value.real.hex(), value.imag.hex()]}
    if isinstance(value, list):
        return [write_value(v, node) for v in value]
    if isinstance(value, tuple):
        return {"tuple": [write_value(v, node) for v in value]}
    if isinstance(value, dict):
        return {"dict": [[write_value(k, node), write_value(v, node)] for k, v in value.items()]}
    if isinstance(value, slice):
        return {"slice": [write_value(v, node) for v in (value.start, value.stop, value.step)]}
    for name, kind in _TORCH_VALUES:
        if isinstance(value, kind):
            return {name: str(value).removeprefix("torch.")}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    if isinstance(value, (torch._ops.OpOverload, torch._ops.HigherOrderOperator)) or _is_edge(value):
        return {"operator": write_operator(value)}
    raise ValueError(f"a graph contains {value!r}; the program format has no values of type {type(value).__name__}")


def read_value(written: Json, node: Callable[[str], Any]) -> Any:
    """Return the argument that `write_value` wrote; `node` finds a graph node by name."""
    if isinstance(written, list):
        return [read_value(v, node) for v in written]
    if not isinstance(written, dict):
        return written
    ((kind, value),) = written.items()
    match kind:
        case "node":
            return node(value)
        case "float":
            return float(value)
        case "complex":
            return complex(*(float.fromhex(v) for v in value))
        case "tuple":
            return tuple(read_value(v, node) for v in value)
        case "dict":
            return {read_value(k, node): read_value(v, node) for k, v in value}
        case "slice":
            return slice(*(read_value(v, node) for v in value))
        case "device":
            return torch.device(value)
        case "operator":
            return read_operator(value)
        case "dtype" | "layout" | "memory_format":
            return getattr(torch, value)
    raise ValueError(f"'{kind}' is not a kind of value")
