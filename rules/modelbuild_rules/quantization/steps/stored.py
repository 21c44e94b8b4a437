"""Parameters and buffers of a graph module that torchao quantized: their names, and unused parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

_DEQUANTIZE = (
    "torchao.dequantize_affine_float8_non_decomposed.default",
    "quantized_decomposed.dequantize_per_channel.default",
    "quantized_decomposed.dequantize_per_tensor.default",
)
_SUFFIXES = ("quantized", "scale", "zero_point")
_INPUT = ("input", "input_scale")  # of an activation, whose value is not stored


def split_shared(module: torch.fx.GraphModule) -> dict[str, str]:
    """Give each layer that shares a parameter a separate copy; return the parameters' names by the names of the copies.
    torchao quantizes a parameter for one layer only, and backends store a bias in the scale of the input."""
    copies: dict[str, str] = {}
    parameters = dict(module.named_parameters(remove_duplicate=False))
    for node in [each for each in module.graph.nodes if each.op == "get_attr" and each.target in parameters]:
        for number, user in enumerate([*node.users][1:], 1):
            name = f"{node.target}_{number}"
            owner, _, leaf = name.rpartition(".")
            value = torch.nn.Parameter(parameters[node.target].detach().clone(), requires_grad=False)
            module.get_submodule(owner).register_parameter(leaf, value)
            with module.graph.inserting_before(node):
                copy = module.graph.get_attr(name)
            copy.meta = dict(node.meta)
            user.replace_input_with(node, copy)
            copies[name] = str(node.target)
    module.recompile()
    return copies


def share_again(module: torch.fx.GraphModule, copies: Mapping[str, str]) -> None:
    """Undo `split_shared` for the layers that are not quantized."""
    for node in module.graph.nodes:
        if node.op == "get_attr" and node.target in copies:
            quantized = [each for user in node.users for each in user.args[1:2] if "dequantize" in str(each)]
            # Only one of the layers may be in half precision.
            if not quantized and _value(module, node.target).dtype == _value(module, copies[node.target]).dtype:
                node.target = copies[node.target]
    module.recompile()


def weights_of(module: torch.fx.GraphModule) -> dict[str, str]:
    """Return the name of the parameter that is the second argument of a node, such as a layer's weight, by node."""
    return {
        node.name: str(node.args[1].target)
        for node in module.graph.nodes
        if node.op == "call_function" and len(node.args) > 1 and getattr(node.args[1], "op", "") == "get_attr"
    }


def name_by_module(module: torch.fx.GraphModule, weights: Mapping[str, str], copies: Mapping[str, str]) -> None:
    """Give integer weights, and the numbers that scale them, names next to the weights that they replace:
    `features.0.weight_quantized`, `features.0.weight_scale`, `features.0.weight_input_scale`. torchao numbers all of
    them."""
    taken = {name for name, _ in (*module.named_parameters(), *module.named_buffers())}
    for node in list(module.graph.nodes):
        layer = next(iter(node.users), None)
        if str(node.target) not in _DEQUANTIZE or layer is None or layer.name not in weights:
            continue
        given = node.args[0]
        for stored, suffix in zip(node.args, _INPUT if given.op == "call_function" else _SUFFIXES, strict=False):
            if getattr(stored, "op", "") == "get_attr" and set(stored.users) <= {given, node}:
                name = f"{copies.get(weights[layer.name], weights[layer.name])}_{suffix}"
                if name not in taken:
                    taken.add(name)
                    _move(module, stored, name)
                elif torch.equal(_value(module, name), _value(module, stored.target)):
                    stored.target = name
    module.recompile()


def _move(module: torch.fx.GraphModule, node: Any, name: str) -> None:
    owner, _, leaf = name.rpartition(".")
    parent = module.get_submodule(owner) if owner else module
    parent.register_buffer(leaf, _value(module, node.target))
    node.target = name


def _value(module: torch.fx.GraphModule, name: str) -> torch.Tensor:
    owner, _, leaf = name.rpartition(".")
    found = getattr(module.get_submodule(owner) if owner else module, leaf)
    assert isinstance(found, torch.Tensor)
    return found.detach()


def remove_unused(module: torch.fx.GraphModule) -> None:
    """Remove the parameters and buffers that no node reads, such as weights that integers replaced."""
    used = {str(node.target) for node in module.graph.nodes if node.op == "get_attr"}
    called = tuple(f"{node.target}." for node in module.graph.nodes if node.op == "call_module")
    for name, _ in [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]:
        if name not in used and not name.startswith(called):
            owner, _, leaf = name.rpartition(".")
            delattr(module.get_submodule(owner) if owner else module, leaf)
