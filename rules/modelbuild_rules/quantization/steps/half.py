"""The quantizing module of the quantizer `half`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch

from modelbuild_rules.backend_api.steps.half_precision import compute_in, limited
from modelbuild_rules.backend_api.steps.quantizing import Filter, Quantizing


class _Half(Quantizing):
    def rewrite(
        self, attributes: Mapping[str, Any], module: torch.fx.GraphModule, mutable: Collection[str], allowed: Filter
    ) -> None:
        buffers = {name for name, _ in module.named_buffers(remove_duplicate=False)} - set(mutable)
        compute_in(
            getattr(torch, attributes["dtype"]),
            module.graph,
            {node for node in module.graph.find_nodes(op="get_attr") if node.target in buffers},
            allowed,
            lambda node, dtype: _store(module, node, dtype, mutable),
        )
        module.recompile()


def _store(module: torch.fx.GraphModule, node: torch.fx.Node, dtype: torch.dtype, mutable: Collection[str]) -> bool:
    """Convert a parameter or buffer that one operator reads and no operator writes to. Return whether it was
    converted."""
    if node.op != "get_attr" or len(node.users) != 1 or node.target in mutable:
        return False
    owner, _, leaf = str(node.target).rpartition(".")
    parent = module.get_submodule(owner)
    value = limited(getattr(parent, leaf).detach(), dtype)
    if leaf in dict(parent.named_parameters(recurse=False)):
        setattr(parent, leaf, torch.nn.Parameter(value, requires_grad=False))
    else:
        setattr(parent, leaf, value)
    node.meta["val"] = node.meta["val"].new_empty(node.meta["val"].shape, dtype=dtype)
    return True


QUANTIZING = _Half()
