"""pte_program: an exported model, lowered with a stack of backends to a program for ExecuTorch."""

from __future__ import annotations

from dataclasses import asdict
from typing import cast

from modelbuild.api import (
    Attrs,
    Check,
    Context,
    Dep,
    DerivedArtifact,
    Files,
    Output,
    Provider,
    Resources,
    rule,
)
from modelbuild_rules.backends.backend import DeviceFacts, Prerequisite
from modelbuild_rules.model import source_places
from modelbuild_rules.program.partitioned_program import PRELOAD, DeviceBackend, PartitionedProgram, offered
from modelbuild_rules.providers import BackendStack, DeviceTarget, ExportedModel, Lowering, Program, StackEntry

_LOWERING = ("executorch", "flatbuffers", "sympy", "torch", "torchao")


class PteProgramAttrs(Attrs):
    """A model, compiled with a stack of backends for a device."""

    model: Dep
    """The model: a `torch_model`."""

    stack: Dep
    """The backends: a `backend_stack`."""

    device: Dep | None = None
    """The device: a `device_target`. `--device` overrides it."""

    external_weights: bool = False
    """Write weights to a `.ptd` beside the `.pte`, to share them between programs or load them separately."""

    device_io: bool = False
    """Keep inputs and outputs of partitions on a GPU in device memory that the caller provides, without copies."""


@rule(attrs=PteProgramAttrs)
def pte_program(ctx: Context[PteProgramAttrs]) -> tuple[Provider, ...]:
    model = ctx.provider(ctx.attrs.model, ExportedModel)
    stack = ctx.provider(ctx.attrs.stack, BackendStack).backends
    needs_device = any(entry.backend.device for entry in stack)
    device = ctx.device(DeviceTarget) if needs_device or ctx.device_label is not None else None
    facts = cast("DeviceFacts", asdict(device)) if device else DeviceFacts()
    for entry in stack:
        problem = entry.backend.problem(entry.attributes, facts)
        if problem:
            raise ctx.error("stack", f"{problem} (device {ctx.device_label}, stack {ctx.attrs.stack})")
    if ctx.attrs.device_io and not needs_device:
        raise ctx.error("device_io", f"no backend of {ctx.attrs.stack} runs on a GPU")
    run = any(entry.backend.examples for entry in stack)
    examples = {"examples": model.examples} if run else {}
    external = ctx.attrs.external_weights
    partitioning = [tool for entry in stack for tool in entry.backend.partition_tools(entry.attributes)]
    tools = [*_LOWERING, *partitioning]
    tools += ["safetensors"] if run else []
    lowered = ctx.action(
        "partition",
        step="partition",
        inputs={"program": model.program, "weights": model.weights, **examples},
        outputs=[
            Output("residual", "residual", "tree"),
            Output("partitions", "partitions", "tree"),
            Output("plan", "plan.json"),
            Output("report", "report.json"),
        ],
        params={
            "backends": [offered(entry, facts) for entry in stack],
            "external_weights": external,
            "versions": sorted({"executorch", "torch", *partitioning}),
            **({"device_io": True} if ctx.attrs.device_io else {}),
        },
        tools=tools,
        plugins=[entry.backend.partitioning for entry in stack if entry.backend.partitioning],
        preload=PRELOAD,
        resources=Resources(memory=2 << 30),
        description=f"partition {ctx.attrs.model} with {ctx.attrs.stack}",
        error_text=source_places.of_program(model),
    )
    checked = ctx.action(
        "check",
        step="check",
        inputs={"program": model.program, "weights": model.weights},
        outputs=[Output("checked", "checked.json")],
        params={"backends": [offered(entry, facts) for entry in stack]},
        tools=[*_LOWERING, *partitioning],
        plugins=[entry.backend.partitioning for entry in stack if entry.backend.partitioning],
        preload=PRELOAD,
        resources=Resources(memory=2 << 30),
        description=f"check {ctx.attrs.model} with {ctx.attrs.stack}",
        error_text=source_places.of_program(model),
    )
    backends = _for_device(ctx, stack, facts)
    sidecars = tuple(dict.fromkeys(each for entry in stack if (each := entry.backend.sidecar(entry.attributes))))
    partitioned = PartitionedProgram(ctx.label.name, model, backends, facts, lowered, external, sidecars)
    promised = ctx.expand(reads=lowered["plan"], promises=partitioned.outputs, then=partitioned.compile_and_link)
    ptd = promised.get("ptd")
    lowering = Lowering(
        model,
        tuple(backend.lowered() for backend in backends),
        tuple(backend.prerequisites for backend in backends),
        (*tools, *(tool for entry in stack for tool in entry.backend.compile_tools(entry.attributes))),
    )
    program = Program(promised["pte"], ptd, promised["delegation"], model.signature, lowering, device)
    files = [program.pte, *(promised[name] for name in partitioned.extra), program.delegation, program.signature]
    return program, Files(tuple(files)), Check((checked["checked"],))


def _for_device(
    ctx: Context[PteProgramAttrs], stack: tuple[StackEntry, ...], facts: DeviceFacts
) -> tuple[DeviceBackend, ...]:
    """Return the stack's backends for the device. Equal prerequisites are shared."""
    needed = [entry.backend.prerequisite(entry.attributes, facts) for entry in stack]
    made: list[dict[str, DerivedArtifact]] = []
    for each in needed:
        first = needed.index(each)
        made.append(made[first] if first < len(made) else _prerequisite(ctx, each))
    return tuple(DeviceBackend(entry, facts, {**each, **entry.files}) for each, entry in zip(made, stack, strict=True))


def _prerequisite(ctx: Context[PteProgramAttrs], needed: Prerequisite | None) -> dict[str, DerivedArtifact]:
    if needed is None:
        return {}
    made = ctx.action(
        needed.step.rpartition(".")[2],
        step=needed.step,
        outputs=[Output(needed.name, needed.name, "tree")],
        params=needed.params,
        tools=needed.tools,
    )
    return {needed.name: made[needed.name]}
