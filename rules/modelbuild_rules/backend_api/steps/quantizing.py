"""A quantizer's step module defines QUANTIZING, an instance of a subclass of Quantizing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from modelbuild_rules.backend_api.steps.plug_ins import plug_in

if TYPE_CHECKING:
    from modelbuild_rules.quantization.documents import UsedQuantizer

Filter = Callable[[Any], bool]
"""Returns whether a node may be quantized, by its module."""


class Quantizing:
    """Makes torchao's objects from the attributes of a quantizer's table. A calibration has only the attributes that
    decide it."""

    operators: tuple[str, ...] = ()
    """Operators that it quantizes, as "aten.linear.default"."""

    types: tuple[str, ...] = ("float32",)
    """Types of the tensors of operators that it quantizes."""

    def rewrite(self, attributes: Mapping[str, Any], module: Any, mutable: Collection[str], allowed: Filter) -> None:
        """Change the graph before other nodes are quantized; set `rewritten` in the meta data of nodes that count as
        quantized. `mutable`: buffers that a call changes."""

    def quantizer(self, attributes: Mapping[str, Any], allowed: Filter) -> Any:
        """Return a quantizer of torchao's PT2E for the allowed nodes."""
        return None

    def linear(self, attributes: Mapping[str, Any]) -> Any:
        """Return torchao's configuration (of `quantize_`) for linear layers."""
        return None

    def packed(self, attributes: Mapping[str, Any], layer: Any) -> Any:
        """Return the module that replaces a linear layer that torchao quantized; by default the layer itself."""
        return layer

    def linear_problem(self, attributes: Mapping[str, Any], weight: Any) -> str:
        """Return the reason why a linear layer with this weight cannot be quantized; '' if it can."""
        return ""


def quantizing(used: UsedQuantizer) -> Quantizing:
    """Return the step module's object of a quantizer. Raises StepError if it has none."""
    return plug_in(used["quantizing"], "QUANTIZING", Quantizing)


def allowed_nodes(attributes: Mapping[str, Any], quantizing: Quantizing) -> Filter:
    """Return the filter of the attributes `operators`, `modules` and `exclude`, for operators on the quantizer's types.
    `operators` does not restrict nodes that a quantizer does not begin with, such as an activation behind a layer.

    A sensitivity report restricts a table by `only` to the operators of a module that are in no submodule, and the
    activations behind these operators."""
    operators, types = quantizing.operators, {f"torch.{name}" for name in quantizing.types}
    own = attributes.get("operators") or operators
    only = attributes.get("only")
    modules, exclude = tuple(attributes.get("modules", ())), tuple(attributes.get("exclude", ()))

    def allowed(node: Any) -> bool:
        if node.op != "call_function":
            return True
        name = str(node.target)
        if name in operators and (name not in own or not _is_of(node, types)):
            return False
        module = module_of(node)
        if only is not None and module != only and (name in operators or not _is_behind(node, operators, only)):
            return False
        return (not modules or is_inside(module, modules)) and not is_inside(module, exclude)

    return allowed


def _is_behind(node: Any, operators: Sequence[str], module: str) -> bool:
    """Return whether the nearest of these operators on the way to a node, at most two nodes before it, is the module's:
    a normalization and an activation may follow a layer."""
    before = node
    for _ in range(2):
        before = next(iter(before.all_input_nodes), None)
        if before is None or before.op != "call_function":
            return False
        if str(before.target) in operators:
            return module_of(before) == module
    return False


def _is_of(node: Any, types: Collection[str]) -> bool:
    """Return whether a node's result, and all tensors that it reads, have one of these types. Nodes that torchao adds
    do."""
    values = [each.meta.get("val") for each in (node, *node.all_input_nodes)]
    return all(str(value.dtype) in types for value in values if hasattr(value, "dtype"))


def module_of(node: Any) -> str:
    """Return the qualified name of a node's innermost module; '' for the whole model."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return str(stack[-1][0]) if stack else ""


def is_inside(module: str, others: Sequence[str]) -> bool:
    """Return whether a module is one of the other modules or inside one."""
    return any(f"{module}.".startswith(f"{other}.") for other in others)
