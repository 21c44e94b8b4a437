"""Quantize linear layers with torchao's `quantize_`, whose configurations cover groups of weights that PT2E lacks.

`quantize_` changes modules of class Linear. A program has operators, so each operator first becomes a separate module.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from modelbuild.step import StepError
from modelbuild_rules.backend_api.steps.quantizing import Filter, Quantizing, allowed_nodes, module_of, quantizing

if TYPE_CHECKING:
    from modelbuild_rules.quantization.documents import UsedQuantizer


def quantize_linears(module: torch.fx.GraphModule, quantizers: Sequence[UsedQuantizer]) -> torch.fx.GraphModule:
    """Quantize the linear layers that no quantizer of PT2E took, each by the first table that allows the layer."""
    for used in quantizers:
        own = quantizing(used)
        config = own.linear(used["attributes"])
        if config is not None:
            _quantize(module, config, own, used, allowed_nodes(used["attributes"], own))
    return module


def _quantize(module: torch.fx.GraphModule, config: Any, own: Quantizing, used: UsedQuantizer, allowed: Filter) -> None:
    from torchao.quantization import quantize_
    from torchao.utils import unwrap_tensor_subclass

    made: dict[tuple[str, str | None], str] = {}
    for node in list(module.graph.nodes):
        if node.target != torch.ops.aten.linear.default or not allowed(node):
            continue
        stored = [str(each.target) if each is not None and each.op == "get_attr" else None for each in node.args[1:]]
        weight, bias = (*stored, None)[:2]
        if weight is None:  # quantized already, or computed
            continue
        problem = own.linear_problem(used["attributes"], module.get_parameter(weight))
        if problem:
            raise StepError(f"the linear layer '{module_of(node) or weight}' can't be quantized: {problem}")
        if (weight, bias) not in made:
            # Added next to the parameters, which other operators may read.
            made[weight, bias] = ".".join([*weight.split(".")[:-1], f"quantized_{len(made)}"])
            layer = _layer(module, weight, bias)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                quantize_(layer, config)
                layer = own.packed(used["attributes"], layer)
                unwrap_tensor_subclass(layer)
            module.add_submodule(made[weight, bias], layer)
        with module.graph.inserting_before(node):
            call = module.graph.call_module(made[weight, bias], (node.args[0],))
        call.meta = dict(node.meta)
        node.replace_all_uses_with(call)
        module.graph.erase_node(node)
    module.graph.eliminate_dead_code()
    module.recompile()


def _layer(module: torch.fx.GraphModule, weight: str, bias: str | None) -> nn.Linear:
    """Return the layer of two parameters."""
    value = module.get_parameter(weight).detach()
    layer = nn.Linear(value.shape[1], value.shape[0], bias=bias is not None, device="meta")
    layer.weight = nn.Parameter(value, requires_grad=False)
    if bias is not None:
        layer.bias = nn.Parameter(module.get_parameter(bias).detach(), requires_grad=False)
    return layer
