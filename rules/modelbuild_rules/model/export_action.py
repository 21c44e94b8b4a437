"""Declare the action that exports a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from modelbuild.api import Artifact, Context, Output, Resources
from modelbuild_rules.backend_api.preload import PRELOAD
from modelbuild_rules.method_names import named, phrase, qualified
from modelbuild_rules.providers import ExportedMethod, KernelLibrary

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import ModelParams, PartParams

EXPORT_TOOLS = ("executorch", "numpy", "pillow", "safetensors", "sympy", "torch")
"""Distributions that decide the bytes of every exported model."""

_PARTS = "modelbuild_rules.model.steps.exported.compiled_part"


def declare_export(
    ctx: Context[Any],
    inputs: Mapping[str, tuple[Artifact, ...]],
    params: ModelParams | PartParams,
    tools: tuple[str, ...],
    name: str,
    kernels: tuple[KernelLibrary, ...] = (),
) -> ExportedMethod:
    """Declare the export of a model, with or without parts that were compiled elsewhere. `name` is the model's name,
    for the description; `kernels` are libraries of operators that the model calls."""
    parts = "parts" in params
    method = params["method"]
    made = ctx.action(
        "export",
        name=named("export", method),
        step=f"modelbuild_rules.model.steps.{'export_parts' if parts else 'export'}",
        inputs=inputs,
        outputs=[
            Output("program", "program", "tree"),
            Output("weights", "weights", "tree"),
            Output("signature", qualified(method, "signature.json")),
            Output("examples", "examples.safetensors"),
            Output("calls", "calls", "tree"),
            Output("debug", qualified(method, "debug.json")),
        ],
        params=params,
        tools=tools,
        python=("srcs",) if "srcs" in inputs else (),
        data=("data",) if "data" in inputs else (),
        plugins=(_PARTS,) if parts else (),
        preload=PRELOAD,
        resources=Resources(memory=2 << 30),
        description=f"export {phrase(method, name)}",
    )
    return ExportedMethod(
        program=made["program"],
        weights=made["weights"],
        signature=made["signature"],
        examples=made["examples"],
        calls=made["calls"],
        debug=made["debug"],
        inputs=tuple(each["name"] for each in params["inputs"]),
        kernels=kernels,
    )
