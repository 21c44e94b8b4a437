"""pte_program: an exported model, lowered with a stack of backends to a program for ExecuTorch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from modelbuild.api import (
    Artifact,
    Attrs,
    Context,
    Dep,
    DerivedArtifact,
    ErrorText,
    Expander,
    Files,
    Output,
    Provider,
    Resources,
    rule,
)
from modelbuild_rules.backends.backend import Prerequisite, Sidecar
from modelbuild_rules.model import source_places
from modelbuild_rules.providers import BackendStack, DeviceTarget, ExportedModel, Lowering, Program, StackEntry

_LOWERING = ("executorch", "flatbuffers", "sympy", "torch", "torchao")
_PRELOAD = ("torch", "executorch.exir")


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
    facts = asdict(device) if device else {}
    for entry in stack:
        problem = entry.backend.problem(entry.attributes, facts)
        if problem:
            raise ctx.error("stack", f"{problem} (device {ctx.device_label}, stack {ctx.attrs.stack})")
    if ctx.attrs.device_io and not needs_device:
        raise ctx.error("device_io", f"no backend of {ctx.attrs.stack} runs on a GPU")
    run = any(entry.backend.examples for entry in stack)
    examples = {"examples": model.examples} if run else {}
    external = ctx.attrs.external_weights
    tools = [*_LOWERING, *(tool for entry in stack for tool in entry.backend.partition_tools(entry.attributes))]
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
            "backends": [_offered(entry, facts) for entry in stack],
            "external_weights": external,
            **({"device_io": True} if ctx.attrs.device_io else {}),
        },
        tools=tools,
        plugins=[entry.backend.partitioning for entry in stack if entry.backend.partitioning],
        preload=_PRELOAD,
        resources=Resources(memory=2 << 30),
        description=f"partition {ctx.attrs.model} with {ctx.attrs.stack}",
        error_text=source_places.of_program(model),
    )
    prerequisites = _prerequisites(ctx, stack, facts)
    sidecars = tuple(dict.fromkeys(each for entry in stack if (each := entry.backend.sidecar(entry.attributes))))
    extra = (*(("ptd",) * external), *(each.name for each in sidecars))
    promised = ctx.expand(
        reads=lowered["plan"],
        promises=_linked(ctx.label.name, extra),
        then=partial(_compile_and_link, ctx.label.name, model, stack, prerequisites, facts, lowered, sidecars, extra),
    )
    ptd = promised.get("ptd")
    lowering = Lowering(
        model,
        tuple(
            {
                **_offered(entry, facts),
                "compiling": entry.backend.compiling,
                "compiled": entry.backend.compile_attributes(entry.attributes, facts),
            }
            for entry in stack
        ),
        prerequisites,
        (*tools, *(tool for entry in stack for tool in entry.backend.compile_tools(entry.attributes))),
    )
    program = Program(promised["pte"], ptd, promised["delegation"], model.signature, lowering, device)
    files = [program.pte, *(promised[name] for name in extra), program.delegation, program.signature]
    return program, Files(tuple(files))


def _offered(entry: StackEntry, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return a backend's entry for the partition step."""
    backend = entry.backend
    offered = backend.partition_attributes(entry.attributes, facts)
    return {"kind": backend.name, "partitioning": backend.partitioning, "attributes": offered}


def _compile_and_link(
    name: str,
    model: ExportedModel,
    stack: tuple[StackEntry, ...],
    prerequisites: tuple[Mapping[str, Artifact], ...],
    facts: Mapping[str, Any],
    lowered: Mapping[str, DerivedArtifact],
    sidecars: tuple[Sidecar, ...],
    extra: tuple[str, ...],
    ctx: Expander,
    plan: bytes,
) -> Mapping[str, Artifact]:
    """Declare a compile action for each partition, and the action that links the program."""
    partitions = json.loads(plan)
    parts = [
        _compile(
            ctx,
            stack[each["entry"]],
            facts,
            {**_part(lowered, each), **prerequisites[each["entry"]]},
            each,
            source_places.of_partition(model, lowered["report"], each["id"]),
        )
        for each in partitions
    ]
    return ctx.action(
        "emit",
        step="emit",
        inputs={"residual": lowered["residual"], "report": lowered["report"], "parts": parts},
        outputs=_linked(name, extra),
        params={
            "partitions": [each["id"] for each in partitions],
            "sidecars": {each.name: each.merging for each in sidecars},
        },
        plugins=[each.merging for each in sidecars],
        tools=("executorch", "flatbuffers"),
        description=f"emit {name}.pte",
    )


def _linked(name: str, extra: tuple[str, ...]) -> list[Output]:
    """Return the outputs of linking."""
    more = [Output(each, f"{name}.{each}") for each in extra]
    return [Output("pte", f"{name}.pte"), *more, Output("delegation", "delegation.json")]


def _part(lowered: Mapping[str, DerivedArtifact], each: Mapping[str, Any]) -> dict[str, DerivedArtifact]:
    partitions = lowered["partitions"]
    return {"partition": DerivedArtifact(partitions.action, partitions.output, each["id"])}


def _prerequisites(
    ctx: Context[PteProgramAttrs], stack: tuple[StackEntry, ...], facts: Mapping[str, Any]
) -> tuple[Mapping[str, Artifact], ...]:
    """Return the inputs of each backend's compile step besides the partition. Equal prerequisites are shared."""
    needed = [entry.backend.prerequisite(entry.attributes, facts) for entry in stack]
    made: list[dict[str, DerivedArtifact]] = []
    for each in needed:
        first = needed.index(each)
        made.append(made[first] if first < len(made) else _prerequisite(ctx, each))
    return tuple({**each, **entry.files} for each, entry in zip(made, stack, strict=True))


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


def _compile(
    ctx: Expander,
    entry: StackEntry,
    facts: Mapping[str, Any],
    inputs: Mapping[str, Artifact],
    each: Mapping[str, Any],
    error_text: ErrorText,
) -> DerivedArtifact:
    backend, attributes = entry.backend, entry.attributes
    operators = f"{each['nodes']} operator{'s' * (each['nodes'] != 1)}"
    return ctx.action(
        "compile",
        name=f"compile:{each['id']}",
        step=backend.compiling,
        inputs=inputs,
        outputs=[Output("compiled", "compiled", "tree")],
        params={"attributes": backend.compile_attributes(attributes, facts)},
        tools=backend.compile_tools(attributes),
        preload=_PRELOAD,
        resources=_resources(backend.gpus(attributes), facts, each),
        description=f"compile {each['id']} for {backend.name} ({operators})",
        error_text=error_text,
    )["compiled"]


def _resources(gpus: int, facts: Mapping[str, Any], each: Mapping[str, Any]) -> Resources:
    capability = min(facts["compute_capabilities"], key=float) if gpus else ""
    return Resources(memory=(1 << 30) + 4 * each["bytes"], gpu=gpus, compute_capability=capability)
