"""TensorRT: partitions become engines, built for the compute capabilities of the device, with or without a GPU here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from modelbuild.step import StepError
from modelbuild_rules.steps._compiled import PROCESSED
from modelbuild_rules.steps._named import write_named
from modelbuild_rules.steps._trt_blob import Metadata, write_blob
from modelbuild_rules.steps._trt_engine import PROFILES, build
from modelbuild_rules.steps._trt_import import import_torch_tensorrt
from modelbuild_rules.steps._trt_lowering import lowered
from modelbuild_rules.steps._trt_partitioner import BACKEND, TensorrtPartitioner
from modelbuild_rules.steps._trt_pooling import round_down
from modelbuild_rules.steps._trt_settings import compilation_settings
from modelbuild_rules.steps._trt_sizes import own_sizes

IDS: tuple[str, ...] = (BACKEND,)
ANNOTATIONS: tuple[str, ...] = (PROFILES,)
PASSES: tuple[Any, ...] = (own_sizes,)
TOLERANCES = {"fp16": 2e-2, "bf16": 1e-1}
"""What computing in fewer bits may cost, as a part of a result's greatest magnitude."""


def prepare(program: Any) -> None:
    """Write max poolings as the converter wants them."""
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            round_down(module)


def partitioner(attributes: Mapping[str, Any], left_out: Mapping[str, str]) -> TensorrtPartitioner:
    """The partitioner that the attributes describe. Raises StepError for an operator that does not exist."""
    import_torch_tensorrt(attributes["flavour"])
    import torch_tensorrt.executorch.backend  # noqa: F401  (registers TensorRTBackend)

    return TensorrtPartitioner(attributes, left_out)


@contextmanager
def refusals() -> Iterator[dict[str, str]]:
    """Reasons are the partitioner's own."""
    yield {}


def failure(program: Any, attributes: Mapping[str, Any]) -> str:
    """Why no engine can be built of a partition, where nodes are to fall back then."""
    if attributes["engine"] is None:
        return ""
    try:
        build(program, attributes["engine"])
    except StepError as error:
        return str(error)
    return ""


def eager(program: Any, attributes: Mapping[str, Any]) -> tuple[Callable[..., Any], float]:
    """What torch_tensorrt's lowering makes of a partition."""
    return lowered(program, compilation_settings(attributes)), TOLERANCES.get(attributes["precision"], 0.0)


def refusal(partitioner: TensorrtPartitioner, node: Any) -> str:
    """Why a node was left out."""
    return partitioner.refused.get(node.name, "not offered")


def compile(program: Any, attributes: Mapping[str, Any], folder: Path) -> None:
    """Build a partition's engine and write its blob into an existing folder."""
    engine = build(program, attributes)
    metadata = Metadata(engine.inputs, engine.outputs, attributes["gpu"], platform=attributes["platform"])
    write_blob(folder / PROCESSED, metadata, engine.plan)
    write_named(folder, ())
