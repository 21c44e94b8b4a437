"""Lowers a partition as torch_tensorrt lowers a program: its decompositions and passes, on the ATen form."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import torch
from torch.export import ExportedProgram

from modelbuild_rules.backends.tensorrt.steps.engine.aten_program import aten_program
from modelbuild_rules.backends.tensorrt.steps.engine.torch_tensorrt_private import PENDING

aten = torch.ops.aten


def decompositions(settings: Any) -> dict[Any, Any]:
    """torch_tensorrt's table of decompositions."""
    from torch_tensorrt.dynamo.lowering import get_decompositions

    table = get_decompositions(settings.enable_experimental_decompositions, settings.decompose_attention)
    # Views have converters; their decompositions give copies that the registry knows less of.
    table.pop(aten.view.default, None)
    return {**table, aten.topk.default: _topk, aten.sort.default: _sort}


def _topk(x: torch.Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """TensorRT's layer wants two dimensions, and the converter does not see to it."""
    if x.dim() != 1:
        return NotImplemented
    values, indices = aten.topk.default(x.unsqueeze(0), k, 1, largest, sorted)
    return values.squeeze(0), indices.squeeze(0)


def _sort(x: torch.Tensor, dim: int = -1, descending: bool = False) -> Any:
    if x.dim() != 1:
        return NotImplemented
    values, indices = aten.sort.default(x.unsqueeze(0), 1, descending)
    return values.squeeze(0), indices.squeeze(0)


def lowered(program: ExportedProgram, settings: Any) -> torch.fx.GraphModule:
    """What torch_tensorrt's interpreter gets: a graph whose inputs are the program's user inputs."""
    from torch_tensorrt.dynamo.lowering import post_lowering, pre_export_lowering

    forget_pending_sizes([node.meta.get("val") for node in program.graph.nodes])
    logging.disable(logging.WARNING)
    try:
        aten = pre_export_lowering(aten_program(program), settings).run_decompositions(decompositions(settings))
        return post_lowering(aten.module(check_guards=False), settings)
    finally:
        logging.disable(logging.NOTSET)


def forget_pending_sizes(values: Sequence[Any]) -> None:
    """Forget sizes that passes came upon and bound to no node: tracing would look for them in its own results."""
    mode = torch._guards.detect_fake_mode(values)
    if mode is not None and mode.shape_env is not None:
        getattr(mode.shape_env, PENDING).clear()
