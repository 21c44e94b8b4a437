"""pte_program: an exported model, lowered with a stack of backends to a program for ExecuTorch."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, cast

from pydantic import Field

from modelbuild.api import (
    Attrs,
    Check,
    Context,
    Dep,
    Files,
    LabelOf,
    Output,
    Provider,
    Resources,
    rule,
)
from modelbuild_rules.backends.backend import DeviceFacts
from modelbuild_rules.cpp.target import cpp_runtime, target_of
from modelbuild_rules.kernels.libraries import compile_kernels, eager_files, given_libraries
from modelbuild_rules.model import source_places
from modelbuild_rules.model.export_action import declare_export
from modelbuild_rules.program import prerequisites
from modelbuild_rules.program.contents import program_contents
from modelbuild_rules.program.partitioned_program import PRELOAD, DeviceBackend, PartitionedProgram, offered
from modelbuild_rules.providers import (
    BackendStack,
    CompiledKernels,
    CompiledModule,
    DeviceTarget,
    EagerModel,
    ExportedModel,
    KernelLibrary,
    Lowering,
    Program,
    StackEntry,
)

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import PartParams

_LOWERING = ("executorch", "flatbuffers", "sympy", "torch", "torchao")


class PteProgramAttrs(Attrs):
    """A model, compiled with a stack of backends for a device."""

    model: Annotated[Dep, LabelOf(ExportedModel, CompiledModule)]
    """The model: a `torch_model`, or a module that was compiled elsewhere, such as a `tensorrt_engine`."""

    stack: Annotated[Dep, LabelOf(BackendStack)] | None = None
    """The backends: a `backend_stack`. Required unless the model was compiled elsewhere."""

    engines: dict[str, Annotated[Dep, LabelOf(CompiledModule)]] = Field(default_factory=dict)
    """Modules that were compiled elsewhere (a `tensorrt_engine`), by the submodule of the model that each replaces."""

    device: Annotated[Dep, LabelOf(DeviceTarget)] | None = None
    """The device: a `device_target`. `--device` overrides it."""

    external_weights: bool = False
    """Write weights to a `.ptd` beside the `.pte`, to share them between programs or load them separately."""

    device_io: bool = False
    """Keep inputs and outputs of partitions on a GPU in device memory that the caller provides, without copies."""


EXAMPLE = """
[[pte_program]]
name = "net_program"
model = ":net"
stack = ":xnnpack"
"""


@rule(attrs=PteProgramAttrs, example=EXAMPLE)
def pte_program(ctx: Context[PteProgramAttrs]) -> tuple[Provider, ...]:
    model, parts = _model(ctx)
    stack = (*parts, *_stack(ctx, needed=not parts or bool(ctx.attrs.engines)))
    needs_device = any(entry.backend.device for entry in stack)
    device = ctx.device(DeviceTarget) if needs_device or ctx.device_label is not None else None
    facts = cast("DeviceFacts", asdict(device)) if device else DeviceFacts()
    for entry in stack:
        problem = entry.backend.problem(entry.attributes, facts)
        if problem and entry in parts:
            place = ("engines", entry.attributes["part"]) if ctx.attrs.engines else "model"
            raise ctx.error(place, f"{problem} (device {ctx.device_label})")
        if problem:
            raise ctx.error("stack", f"{problem} (device {ctx.device_label}, stack {ctx.attrs.stack})")
    if ctx.attrs.device_io and not needs_device:
        raise ctx.error("device_io", f"no backend of {ctx.attrs.stack} runs on a GPU")
    # A part that was compiled elsewhere does not run here.
    run = any(entry.backend.examples for entry in stack) and not parts
    examples = {"examples": model.examples} if run else {}
    external = ctx.attrs.external_weights
    partitioning = [tool for entry in stack for tool in entry.backend.partition_tools(entry.attributes)]
    tools = [*_LOWERING, *partitioning, *(tool for each in model.kernels for tool in each.tools)]
    checking = tuple(tools)
    tools += ["safetensors"] if run else []
    # The operators of kernel libraries are registered by Python files.
    eager = {"eager": eager_files(model.kernels)} if model.kernels else {}
    own = {"kernels": given_libraries(model.kernels)} if model.kernels else {}
    lowered = ctx.action(
        "partition",
        step="partition",
        inputs={"program": model.program, "weights": model.weights, **examples, **eager},
        outputs=[
            Output("residual", "residual", "tree"),
            Output("partitions", "partitions", "tree"),
            Output("plan", "plan.json"),
            Output("report", "report.json"),
            Output("notes", "notes.txt"),
        ],
        params={
            "backends": [offered(entry, facts) for entry in stack],
            "external_weights": external,
            "versions": sorted({"executorch", "torch", *partitioning}),
            **({"device_io": True} if ctx.attrs.device_io else {}),
            **own,
        },
        tools=tools,
        python=tuple(eager),
        plugins=[entry.backend.partitioning for entry in stack if entry.backend.partitioning],
        preload=PRELOAD,
        resources=Resources(memory=2 << 30),
        description=f"partition {ctx.attrs.model}" + (f" with {ctx.attrs.stack}" if ctx.attrs.stack else ""),
        notes="notes",
        error_text=source_places.of_program(model),
    )
    checked = ctx.action(
        "check",
        step="check",
        inputs={"program": model.program, "weights": model.weights, **eager},
        outputs=[Output("checked", "checked.json")],
        params={"backends": [offered(entry, facts) for entry in stack], **own},
        tools=checking,
        python=tuple(eager),
        plugins=[entry.backend.partitioning for entry in stack if entry.backend.partitioning],
        preload=PRELOAD,
        resources=Resources(memory=2 << 30),
        description=f"check {ctx.attrs.model}" + (f" with {ctx.attrs.stack}" if ctx.attrs.stack else ""),
        error_text=source_places.of_program(model),
    )
    backends, kernels = _for_device(ctx, stack, facts, model.kernels)
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
    names = promised["pte"], ptd, promised["delegation"], model.signature
    program = Program(*names, None if parts else lowering, device, model.inputs, kernels)
    files = [program.pte, *(promised[name] for name in partitioned.extra), program.delegation, program.signature]
    files += [file for each in kernels for file in (each.library, each.description)]
    contents = program_contents(f"{ctx.label.name}.pte", program.delegation)
    return program, Files(tuple(files)), Check((checked["checked"],)), contents


def _model(ctx: Context[PteProgramAttrs]) -> tuple[ExportedModel, tuple[StackEntry, ...]]:
    """Return the model, and a backend for each of its parts that was compiled elsewhere."""
    attrs = ctx.attrs
    whole = [each for each in ctx.providers(attrs.model) if isinstance(each, CompiledModule)]
    if whole and attrs.engines:
        raise ctx.error("engines", f"'{attrs.model}' is compiled as a whole; expected a torch_model with submodules")
    if not attrs.engines:
        return ctx.provider(attrs.model, ExportedModel), tuple(each.backend for each in whole)
    eager = ctx.provider(attrs.model, EagerModel)
    modules = {name: ctx.provider(each, CompiledModule) for name, each in attrs.engines.items()}
    params: PartParams = {
        **eager.params,
        "parts": {
            name: {"id": name, "name": f"the engine of '{name}'", "inputs": [*each.inputs], "outputs": [*each.outputs]}
            for name, each in modules.items()
        },
    }
    kernels = ctx.provider(attrs.model, ExportedModel).kernels
    model = declare_export(ctx, {**eager.inputs, **eager.examples}, params, eager.tools, attrs.model, kernels)
    backends = [(name, each.backend) for name, each in modules.items()]
    return model, tuple(replace(each, attributes={**each.attributes, "part": name}) for name, each in backends)


def _stack(ctx: Context[PteProgramAttrs], needed: bool) -> tuple[StackEntry, ...]:
    if ctx.attrs.stack is not None:
        return ctx.provider(ctx.attrs.stack, BackendStack).backends
    if needed:
        raise ctx.error("stack", "no backends are given; expected 'stack', the label of a backend_stack")
    return ()


def _for_device(
    ctx: Context[PteProgramAttrs],
    stack: tuple[StackEntry, ...],
    facts: DeviceFacts,
    kernels: tuple[KernelLibrary, ...],
) -> tuple[tuple[DeviceBackend, ...], tuple[CompiledKernels, ...]]:
    """Return the stack's backends and the kernel libraries for the device. Equal prerequisites are shared."""
    target = _target(facts)
    needed = [entry.backend.prerequisite(entry.attributes, facts) for entry in stack]
    made = prerequisites.declare(ctx, [*needed, *([cpp_runtime(target)] if kernels else [])])
    backends = [DeviceBackend(entry, facts, {**each, **entry.files}) for each, entry in zip(made, stack, strict=False)]
    compiled = [compile_kernels(ctx, each, target, made[-1]["runtime"]) for each in kernels]
    return tuple(backends), tuple(compiled)


def _target(facts: DeviceFacts) -> str:
    """Return the machine that kernels are compiled for: the device, or that of the build."""
    return target_of(facts["arch"], facts["os"], facts["min_glibc"]) if facts else target_of(os.uname().machine)
