"""Lowers a partition as torch_tensorrt lowers a program: its decompositions and passes, on the ATen form."""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch.export import ExportedProgram

from modelbuild_rules.steps._trt_aten import aten_program


def decompositions(settings: Any) -> dict[Any, Any]:
    """torch_tensorrt's table of decompositions."""
    from torch_tensorrt.dynamo.lowering import get_decompositions

    table = get_decompositions(settings.enable_experimental_decompositions, settings.decompose_attention)
    # Views have converters; their decompositions give copies that the registry knows less of.
    table.pop(torch.ops.aten.view.default, None)
    return dict(table)


def lowered(program: ExportedProgram, settings: Any) -> torch.fx.GraphModule:
    """What torch_tensorrt's interpreter gets: a graph whose inputs are the program's user inputs."""
    from torch_tensorrt.dynamo.lowering import post_lowering, pre_export_lowering

    logging.disable(logging.WARNING)
    try:
        aten = pre_export_lowering(aten_program(program), settings).run_decompositions(decompositions(settings))
        return post_lowering(aten.module(check_guards=False), settings)
    finally:
        logging.disable(logging.NOTSET)
