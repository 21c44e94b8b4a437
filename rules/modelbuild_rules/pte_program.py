"""pte_program: an exported model, lowered with a stack of backends into a program that ExecuTorch runs."""

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
    Expander,
    Files,
    Output,
    Provider,
    Resources,
    Telling,
    rule,
)
from modelbuild_rules import places
from modelbuild_rules.backend_kind import Prerequisite
from modelbuild_rules.backends import KINDS
from modelbuild_rules.providers import Backend, BackendStack, DeviceTarget, ExportedModel, Lowering, Program

_LOWERING = ("executorch", "flatbuffers", "sympy", "torch", "torchao")
_SUFFIX = {"ptd": "ptd", "tuning": "tuning.json"}
_WARM = ("torch", "executorch.exir")


class PteProgramAttrs(Attrs):
    """A model, compiled with a stack of backends for a device."""

    model: Dep
    """The model: a `torch_model`."""

    stack: Dep
    """The backends: a `backend_stack`."""

    device: Dep | None = None
    """The device: a `device_target`. `--device` stands in for it."""

    external_weights: bool = False
    """Put weights into a `.ptd` beside the `.pte`, for programs that share them or to be loaded apart."""

    device_io: bool = False
    """Leave inputs and outputs of parts on a GPU in device memory, which the caller gives; nothing is copied then."""


@rule(attrs=PteProgramAttrs)
def pte_program(ctx: Context[PteProgramAttrs]) -> tuple[Provider, ...]:
    model = ctx.provider(ctx.attrs.model, ExportedModel)
    stack = ctx.provider(ctx.attrs.stack, BackendStack).backends
    needs_device = any(KINDS[backend.kind].device for backend in stack)
    device = ctx.device(DeviceTarget) if needs_device or ctx.device_label is not None else None
    facts = asdict(device) if device else {}
    for backend in stack:
        problem = KINDS[backend.kind].problem(backend.attributes, facts)
        if problem:
            raise ctx.error("stack", f"{problem} (device {ctx.device_label}, stack {ctx.attrs.stack})")
    if ctx.attrs.device_io and not needs_device:
        raise ctx.error("device_io", f"no backend of {ctx.attrs.stack} runs on a GPU")
    run = any(KINDS[backend.kind].examples for backend in stack)
    examples = {"examples": model.examples} if run else {}
    external = ctx.attrs.external_weights
    tools = [*_LOWERING, *(tool for b in stack for tool in KINDS[b.kind].partition_tools(b.attributes))]
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
            "backends": [_offered(backend, facts) for backend in stack],
            "external_weights": external,
            **({"device_io": True} if ctx.attrs.device_io else {}),
        },
        tools=tools,
        preload=_WARM,
        resources=Resources(memory=2 << 30),
        description=f"partition {ctx.attrs.model} with {ctx.attrs.stack}",
        telling=places.of_program(model),
    )
    prerequisites = _prerequisites(ctx, stack, facts)
    extra = ("ptd",) * external + ("tuning",) * any(KINDS[b.kind].times(b.attributes) for b in stack)
    promised = ctx.expand(
        reads=lowered["plan"],
        promises=_linked(ctx.label.name, extra),
        then=partial(_compile_and_link, ctx.label.name, model, stack, prerequisites, facts, lowered, extra),
    )
    ptd = promised.get("ptd")
    lowering = Lowering(
        model,
        tuple({**_offered(b, facts), "compiled": KINDS[b.kind].compiled(b.attributes, facts)} for b in stack),
        prerequisites,
        (*tools, *(tool for b in stack for tool in KINDS[b.kind].compile_tools(b.attributes))),
    )
    program = Program(promised["pte"], ptd, promised["delegation"], model.signature, lowering, device)
    files = [program.pte, *(promised[name] for name in extra), program.delegation, program.signature]
    return program, Files(tuple(files))


def _offered(backend: Backend, facts: Mapping[str, Any]) -> dict[str, Any]:
    """A backend as the partition step sees it."""
    return {"kind": backend.kind, "attributes": KINDS[backend.kind].offered(backend.attributes, facts)}


def _compile_and_link(
    name: str,
    model: ExportedModel,
    stack: tuple[Backend, ...],
    prerequisites: tuple[Mapping[str, Artifact], ...],
    facts: Mapping[str, Any],
    lowered: Mapping[str, DerivedArtifact],
    extra: tuple[str, ...],
    ctx: Expander,
    plan: bytes,
) -> Mapping[str, Artifact]:
    """Declare an action for each partition, and the one that puts the program together."""
    partitions = json.loads(plan)
    parts = [
        _compile(
            ctx,
            stack[each["entry"]],
            facts,
            {**_part(lowered, each), **prerequisites[each["entry"]]},
            each,
            places.of_partition(model, lowered["report"], each["id"]),
        )
        for each in partitions
    ]
    return ctx.action(
        "emit",
        step="emit",
        inputs={"residual": lowered["residual"], "report": lowered["report"], "parts": parts},
        outputs=_linked(name, extra),
        params={"partitions": [each["id"] for each in partitions]},
        tools=("executorch", "flatbuffers"),
        description=f"emit {name}.pte",
    )


def _linked(name: str, extra: tuple[str, ...]) -> list[Output]:
    """What linking gives."""
    more = [Output(each, f"{name}.{_SUFFIX[each]}") for each in extra]
    return [Output("pte", f"{name}.pte"), *more, Output("delegation", "delegation.json")]


def _part(lowered: Mapping[str, DerivedArtifact], each: Mapping[str, Any]) -> dict[str, DerivedArtifact]:
    partitions = lowered["partitions"]
    return {"partition": DerivedArtifact(partitions.action, partitions.output, each["id"])}


def _prerequisites(
    ctx: Context[PteProgramAttrs], stack: tuple[Backend, ...], facts: Mapping[str, Any]
) -> tuple[Mapping[str, Artifact], ...]:
    """What each backend's compile step reads beside a partition, by input. Backends that need the same share it."""
    needed = [KINDS[backend.kind].prerequisite(backend.attributes, facts) for backend in stack]
    made: list[dict[str, DerivedArtifact]] = []
    for each in needed:
        first = needed.index(each)
        made.append(made[first] if first < len(made) else _prerequisite(ctx, each))
    return tuple({**each, **backend.files} for each, backend in zip(made, stack, strict=True))


def _prerequisite(ctx: Context[PteProgramAttrs], needed: Prerequisite | None) -> dict[str, DerivedArtifact]:
    if needed is None:
        return {}
    made = ctx.action(
        needed.step,
        step=needed.step,
        outputs=[Output(needed.name, needed.name, "tree")],
        params=needed.params,
        tools=needed.tools,
    )
    return {needed.name: made[needed.name]}


def _compile(
    ctx: Expander,
    backend: Backend,
    facts: Mapping[str, Any],
    inputs: Mapping[str, Artifact],
    each: Mapping[str, Any],
    telling: Telling,
) -> DerivedArtifact:
    kind = KINDS[backend.kind]
    operators = f"{each['nodes']} operator{'s' * (each['nodes'] != 1)}"
    return ctx.action(
        "compile",
        name=f"compile:{each['id']}",
        step=f"compile_{backend.kind}",
        inputs=inputs,
        outputs=[Output("compiled", "compiled", "tree")],
        params={"attributes": kind.compiled(backend.attributes, facts)},
        tools=kind.compile_tools(backend.attributes),
        preload=_WARM,
        resources=_resources(kind.gpus(backend.attributes), facts, each),
        description=f"compile {each['id']} for {backend.kind} ({operators})",
        telling=telling,
    )["compiled"]


def _resources(gpus: int, facts: Mapping[str, Any], each: Mapping[str, Any]) -> Resources:
    capability = min(facts["compute_capabilities"], key=float) if gpus else ""
    return Resources(memory=(1 << 30) + 4 * each["bytes"], gpu=gpus, compute_capability=capability)
