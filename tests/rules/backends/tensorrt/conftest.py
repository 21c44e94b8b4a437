"""Modules partitioned and compiled for TensorRT, without a GPU."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import ExportedProgram

from modelbuild.step import Step

OFFERED: Mapping[str, Any] = {
    "flavour": "rtx",
    "precision": "fp32",
    "min_block_size": 1,
    "exclude_ops": [],
    "optimization_profiles": [],
    "fallback_data_dependent_ops": True,
    "target_device": "cuda:0",
    "engine": None,
}
XNNPACK: Mapping[str, Any] = {
    "precisions": ["dynamic_quant", "fp32", "static_quant"],
    "per_op_mode": False,
    "exclude_ops": [],
    "force_non_static_weights_for_f32_linear": False,
    "lossy": [],
}
COMPILED: Mapping[str, Any] = {
    "flavour": "rtx",
    "precision": "fp32",
    "workspace_size": 1 << 28,
    "fallback_data_dependent_ops": True,
    "compute_capabilities": ["8.6", "8.9"],
    "gpu": 0,
    "platform": "linux_x86_64",
}


@dataclass(frozen=True)
class Partitioned:
    """The outputs of the partition step."""

    folder: Path

    @property
    def report(self) -> dict[str, dict[str, Any]]:
        """Facts of each node by its operator."""
        return {node["op"]: node for node in self.nodes}

    @property
    def nodes(self) -> list[dict[str, Any]]:
        return json.loads((self.folder / "report.json").read_text())

    @property
    def plan(self) -> list[dict[str, Any]]:
        return json.loads((self.folder / "plan.json").read_text())

    def why(self, op: str) -> str:
        """Return the reason why the first backend of the stack refused an operator; '' if it took it."""
        refused = self.report[op]["refused"]
        return refused[0]["why"] if refused else ""


def partition(
    module: nn.Module | ExportedProgram,
    inputs: Sequence[torch.Tensor],
    folder: Path,
    *tables: Mapping[str, Any],
    dynamic: Any = None,
    xnnpack: bool = False,
) -> Partitioned:
    """Run the partition step with a `tensorrt` backend for each table of attributes, then XNNPACK if asked, then
    portable kernels."""
    from modelbuild_rules.model.steps.calls.recorded import Call, Recording, write
    from modelbuild_rules.model.steps.exported.program import save_program
    from modelbuild_rules.program.steps import partition as step

    torch.set_num_threads(1)
    exported = module
    if isinstance(module, nn.Module):
        exported = torch.export.export(module.eval(), tuple(inputs), dynamic_shapes=dynamic)
    for name in ("program", "weights", "residual", "partitions"):
        (folder / name).mkdir(parents=True)
    save_program(exported, folder / "program", folder / "weights")
    (folder / "calls").mkdir()
    write(Recording([Call("the example inputs", tuple(inputs), [], [])]), {}, folder / "calls")
    stack = [
        {
            "kind": "tensorrt",
            "partitioning": "modelbuild_rules.backends.tensorrt.steps.partitioning",
            "attributes": {**OFFERED, **table},
        }
        for table in tables or ({},)
    ]
    if xnnpack:
        steps = "modelbuild_rules.backends.xnnpack.steps.partitioning"
        stack.append({"kind": "xnnpack", "partitioning": steps, "attributes": XNNPACK})
    names = ("residual", "partitions")
    step.run(
        Step(
            {
                "backends": [*stack, {"kind": "portable", "partitioning": "", "attributes": {"ops": None}}],
                "external_weights": False,
            },
            {name: (folder / name,) for name in ("program", "weights", "calls")},
            {
                **{name: folder / name for name in names},
                **{n: folder / f"{n}.json" for n in ("plan", "report", "notes")},
            },
            folder,
        )
    )
    return Partitioned(folder)


def link(made: Partitioned, gpus: Mapping[int, int] | None = None) -> Path:
    """Compile every partition and link the program; `gpus` are the GPUs of the stack's backends."""
    from modelbuild_rules.backends.tensorrt.steps import compile
    from modelbuild_rules.program.steps import emit

    ids = [each["id"] for each in made.plan]
    for each in made.plan:
        out = made.folder / "compiled" / each["id"]
        out.mkdir(parents=True)
        attributes = {**COMPILED, "gpu": (gpus or {}).get(each["entry"], 0)}
        inputs = {"partition": (made.folder / "partitions" / each["id"],)}
        compile.run(Step({"attributes": attributes}, inputs, {"compiled": out}, made.folder))
    pte = made.folder / "model.pte"
    emit.run(
        Step(
            {"partitions": {"forward": ids}, "sidecars": {}},
            {
                "residual": (made.folder / "residual",),
                "report": (made.folder / "report.json",),
                "parts": tuple(made.folder / "compiled" / id for id in ids),
            },
            {
                "pte": pte,
                "delegation": made.folder / "delegation.json",
            },
            made.folder,
        )
    )
    return pte


@pytest.fixture(scope="session", name="partition")
def _partition() -> Callable[..., Partitioned]:
    return partition


@pytest.fixture(scope="session", name="link")
def _link() -> Callable[..., Path]:
    return link


@pytest.fixture(scope="session")
def compiled() -> Mapping[str, Any]:
    """Return the inputs of the compile step."""
    return COMPILED
