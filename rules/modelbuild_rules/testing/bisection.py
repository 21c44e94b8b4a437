"""The actions that search for the first wrong node after a test failed: on this machine, or with its device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modelbuild.api import Artifact, Context, DerivedArtifact, DeviceJob, Output, Resources
from modelbuild_rules.providers import DeviceTarget, ExportedModel, Lowering
from modelbuild_rules.testing.attributes import seconds
from modelbuild_rules.testing.on_device import OnDevice

_STEPS = "modelbuild_rules.testing.steps.bisect"
_RESOURCES = Resources(memory=4 << 30)


def search_here(
    ctx: Context[Any],
    reference: ExportedModel,
    lowering: Lowering,
    inputs: Mapping[str, Artifact | tuple[Artifact, ...]],
    params: Mapping[str, Any],
    tools: tuple[str, ...],
) -> DerivedArtifact:
    """Declare the action that searches with ExecuTorch's Python runtime; return its finding."""
    return ctx.action(
        "bisect",
        step="first_wrong_node",
        inputs={**inputs, **_reference(reference), **_lowered(lowering)},
        outputs=[Output("finding", "finding.json")],
        params={**params, "backends": list(lowering.backends)},
        plugins=_plugins(lowering),
        tools=(*lowering.tools, *tools),
        python=("srcs", "metric_srcs"),
        preload=("torch", "executorch.exir"),
        resources=_RESOURCES,
        description=f"find the first wrong node of {ctx.attrs.program}",
    )["finding"]


def search_on_device(
    ctx: Context[Any],
    reference: ExportedModel,
    lowering: Lowering,
    inputs: Mapping[str, Artifact | tuple[Artifact, ...]],
    params: Mapping[str, Any],
    tools: tuple[str, ...],
    tested: OnDevice,
) -> DerivedArtifact:
    """Declare the actions that search on the test's device; return the finding.

    The device runs the program with all tensors between partitions as outputs, on the case that failed in the report,
    and then the wrong partition with its nodes' results as outputs.
    """
    needed = {name: each for name, each in inputs.items() if not name.startswith("case.")}
    lowered: dict[str, Any] = {"inputs": {**needed, **_lowered(lowering)}, "plugins": _plugins(lowering)}
    shared: dict[str, Any] = {
        "tools": (*lowering.tools, *tools),
        "python": ("srcs", "metric_srcs"),
        "preload": ("torch", "executorch.exir"),
        "resources": _RESOURCES,
    }
    params = {**{name: value for name, value in params.items() if name != "cases"}, "backends": list(lowering.backends)}
    taps = ctx.action(
        "taps",
        step=f"{_STEPS}.tapped_program",
        outputs=[Output("taps", "taps", "tree")],
        params={name: params[name] for name in ("eager", "method", "backends") if name in params},
        description=f"give {ctx.attrs.program} all tensors between partitions as outputs",
        **lowered,
        **shared,
    )["taps"]
    data = {name: each for name, each in needed.items() if name == "program.ptd"}
    plan = ctx.action(
        "plan-taps",
        step=f"{_STEPS}.tap_commands",
        inputs={"report": tested.report, "cases": tested.cases, "taps": taps, **data},
        outputs=[Output("plan", "plan", "tree")],
        description=f"choose the case of {ctx.label} to search",
    )["plan"]
    wrong = ctx.action(
        "find-partition",
        step=f"{_STEPS}.wrong_partition",
        inputs={
            **lowered["inputs"],
            **_reference(reference),
            "bundle": tested.bundle,
            "cases": tested.cases,
            "taps": taps,
            "plan": plan,
        },
        outputs=[Output("wrong", "wrong", "tree")],
        params=params,
        plugins=lowered["plugins"],
        device=_job(ctx, ("bundle", "cases", "taps", "plan", *data), "plan"),
        description=f"find the first wrong partition of {ctx.attrs.program} on {ctx.device_label}",
        **shared,
    )["wrong"]
    return ctx.action(
        "bisect",
        step=f"{_STEPS}.wrong_node_on_device",
        inputs={"bundle": tested.bundle, "wrong": wrong},
        outputs=[Output("finding", "finding.json")],
        tools=("numpy",),
        device=_job(ctx, ("bundle", "wrong"), "wrong"),
        description=f"find the first wrong node of {ctx.attrs.program} on {ctx.device_label}",
    )["finding"]


def _job(ctx: Context[Any], inputs: tuple[str, ...], plan: str) -> DeviceJob:
    return DeviceJob(str(ctx.device_label), ctx.device(DeviceTarget).spec, inputs, plan, seconds(ctx.attrs))


def _reference(reference: ExportedModel) -> dict[str, Artifact]:
    return {
        "reference.program": reference.program,
        "reference.weights": reference.weights,
        "reference.debug": reference.debug,
    }


def _lowered(lowering: Lowering) -> dict[str, Artifact | tuple[Artifact, ...]]:
    needs = {f"backend.{i}.{n}": a for i, needed in enumerate(lowering.prerequisites) for n, a in needed.items()}
    return {"lowered.program": lowering.model.program, "lowered.weights": lowering.model.weights, **needs}


def _plugins(lowering: Lowering) -> list[str]:
    return sorted({each[part] for each in lowering.backends for part in ("partitioning", "compiling")} - {""})
