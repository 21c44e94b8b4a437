"""pte_program: exported models, lowered with a stack of backends to a program for ExecuTorch."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, cast

from pydantic import Field

from modelbuild.api import (
    Artifact,
    Attrs,
    Check,
    Context,
    Dep,
    DerivedArtifact,
    Files,
    Label,
    LabelOf,
    Output,
    Provider,
    Resources,
    rule,
)
from modelbuild.errors import did_you_mean
from modelbuild_rules.backends.backend import DeviceFacts
from modelbuild_rules.cpp.target import cpp_runtime, target_of
from modelbuild_rules.kernels.libraries import compile_kernels, eager_files, given_libraries
from modelbuild_rules.model import source_places
from modelbuild_rules.model.export_action import declare_export
from modelbuild_rules.model.inputs import MethodName
from modelbuild_rules.model.methods import method_of, methods_of
from modelbuild_rules.program import prerequisites
from modelbuild_rules.program.contents import program_contents
from modelbuild_rules.program.partitioned_program import (
    PRELOAD,
    DeviceBackend,
    PartitionedMethod,
    PartitionedProgram,
    offered,
)
from modelbuild_rules.program.verification import runs_here, verify_action
from modelbuild_rules.providers import (
    BackendStack,
    CompiledKernels,
    CompiledModule,
    DeviceTarget,
    EagerModel,
    ExportedModel,
    KernelLibrary,
    Lowering,
    ModelMethods,
    Program,
    ProgramMethod,
    StackEntry,
)
from modelbuild_rules.quantization.fit import unfit, unfit_device

if TYPE_CHECKING:
    from modelbuild_rules.kernels.documents import GivenLibrary
    from modelbuild_rules.model.documents import PartParams

_LOWERING = ("executorch", "flatbuffers", "sympy", "torch", "torchao")


class PteProgramAttrs(Attrs):
    """A model, or several as methods of one program, compiled with a stack of backends for a device."""

    model: Annotated[Dep, LabelOf(ExportedModel, CompiledModule)] | None = None
    """The model: a `torch_model`, a `quantized_model`, or a module that was compiled elsewhere: a `tensorrt_engine`. It
    becomes the method `forward`; a `torch_model` with `methods` becomes these."""

    methods: dict[MethodName, Annotated[Dep, LabelOf(ExportedModel, ModelMethods)]] = Field(default_factory=dict)
    """In place of `model`: the `torch_model` or `quantized_model` of each method, by the method's name. Of a
    `torch_model` with `methods`, it is the method of this name. Weights that several methods use are in the program
    once."""

    stack: Annotated[Dep, LabelOf(BackendStack)] | None = None
    """The backends: a `backend_stack`. Required unless the model was compiled elsewhere, or `stacks` has one for each
    method."""

    stacks: dict[MethodName, Annotated[Dep, LabelOf(BackendStack)]] = Field(default_factory=dict)
    """The backends of methods that have others than `stack`: a `backend_stack`, by the method's name."""

    engines: dict[str, Annotated[Dep, LabelOf(CompiledModule)]] = Field(default_factory=dict)
    """Modules that were compiled elsewhere (a `tensorrt_engine`), by the submodule of the model that each replaces."""

    device: Annotated[Dep, LabelOf(DeviceTarget)] | None = None
    """The device: a `device_target`. `--device` overrides it."""

    external_weights: bool = False
    """Write weights to a `.ptd` beside the `.pte`, to share them between programs or load them separately."""

    device_io: bool = False
    """Keep inputs and outputs of partitions on a GPU in device memory that the caller provides, without copies."""

    verify: bool = True
    """Run the program after it is linked, and fail if it computes something else than its model: on the example inputs,
    and on others. Of a stack with parts for a GPU, no program runs; its parts are compared before they are compiled."""


EXAMPLE = """
[[pte_program]]
name = "net_program"
model = ":net"
stack = ":xnnpack"
"""


@rule(attrs=PteProgramAttrs, example=EXAMPLE, toolchain_from=("stack", "model"))
def pte_program(ctx: Context[PteProgramAttrs]) -> tuple[Provider, ...]:
    models, parts = _models(ctx)
    stacks = _stacks(ctx, models, parts)
    entries = [entry for stack in stacks.values() for entry in stack]
    needs_device = any(entry.backend.device for entry in entries)
    device = ctx.device(DeviceTarget) if needs_device or ctx.device_label is not None else None
    facts = cast("DeviceFacts", asdict(device)) if device else DeviceFacts()
    for name, model in models.items():
        _check_stack(ctx, name, model, stacks[name], parts, facts)
    if ctx.attrs.device_io and not needs_device:
        raise ctx.error("device_io", f"no backend of {ctx.attrs.stack or 'the stacks'} runs on a GPU")
    external = ctx.attrs.external_weights
    modules = _modules(ctx, list(models))
    shares = len(set(modules.values())) < len(modules)
    libraries = tuple(dict.fromkeys(each for model in models.values() for each in model.kernels))
    backends, kernels = _for_device(ctx, stacks, facts, libraries)
    # A part that was compiled elsewhere does not run here.
    runs = {
        name: ctx.attrs.verify and not parts and not all(entry.backend.runs_here for entry in stack)
        for name, stack in stacks.items()
    }
    methods = tuple(
        PartitionedMethod(
            name,
            model,
            _partition(ctx, name, model, stacks[name], facts, (runs[name], shares)),
            backends[name],
            modules[name],
        )
        for name, model in models.items()
    )
    checked = tuple(_check(ctx, name, model, stacks[name], facts) for name, model in models.items())
    sidecars = tuple(dict.fromkeys(each for entry in entries if (each := entry.backend.sidecar(entry.attributes))))
    partitioned = PartitionedProgram(ctx.label.name, methods, facts, external, sidecars)
    promised = ctx.expand(reads=partitioned.plan(ctx), promises=partitioned.outputs, then=partitioned.compile_and_link)
    program = Program(
        promised["pte"],
        promised.get("ptd"),
        promised["delegation"],
        promised.get("signature", methods[0].model.signature),
        {
            each.name or "forward": ProgramMethod(
                each.model.inputs,
                None
                if parts
                else Lowering(
                    each.model,
                    tuple(backend.lowered() for backend in each.backends),
                    tuple(backend.prerequisites for backend in each.backends),
                    (
                        *_partition_tools(each.model, stacks[each.name], runs[each.name]),
                        *(tool for one in stacks[each.name] for tool in one.backend.compile_tools(one.attributes)),
                    ),
                ),
                each.module,
            )
            for each in methods
        },
        device,
        kernels,
    )
    if ctx.attrs.verify and not parts and runs_here(program, stacks):
        named = {name or "forward": model for name, model in models.items()}
        program = replace(program, verified=verify_action(ctx, program, named))
    files = [program.pte, *(promised[name] for name in partitioned.extra), program.delegation, program.signature]
    files += [program.verified] if program.verified else []
    files += [file for each in kernels for file in (each.library, each.description)]
    contents = program_contents(f"{ctx.label.name}.pte", program.delegation, program.verified)
    return program, Files(tuple(files)), Check(checked), contents


def _check_stack(
    ctx: Context[PteProgramAttrs],
    name: str,
    model: ExportedModel,
    stack: Sequence[StackEntry],
    parts: Sequence[StackEntry],
    facts: DeviceFacts,
) -> None:
    """Raise LoadingError for a method's stack that does not fit the device, or the model's recipe."""
    attrs = ctx.attrs
    place: str | tuple[str, str] = ("stacks", name) if name in attrs.stacks else "stack"
    for entry in stack:
        problem = entry.backend.problem(entry.attributes, facts)
        if problem and entry in parts:
            of = ("engines", entry.attributes["part"]) if attrs.engines else "model"
            raise ctx.error(of, f"{problem} (device {ctx.device_label})")
        if problem:
            label = attrs.stacks.get(name, attrs.stack)
            raise ctx.error(place, f"{problem} (device {ctx.device_label}, stack {label})")
    if problem := unfit(model, stack):
        label = attrs.methods.get(name, attrs.model)
        raise ctx.error(place, f"{problem}; expected a stack for the recipe of {label}")
    if problem := unfit_device(model, facts):
        label = attrs.methods.get(name, attrs.model)
        raise ctx.error(
            ("methods", name) if name in attrs.methods else "model",
            f"{problem} (device {ctx.device_label}, model {label})",
        )


def _partition(
    ctx: Context[PteProgramAttrs],
    method: str,
    model: ExportedModel,
    stack: tuple[StackEntry, ...],
    facts: DeviceFacts,
    flags: tuple[bool, bool],
) -> Mapping[str, DerivedArtifact]:
    """Declare the action that lowers a method; return its outputs. `flags`: check its parts on a recorded call, and
    share its state with other methods."""
    run, shares = flags
    partitioning = [tool for entry in stack for tool in entry.backend.partition_tools(entry.attributes)]
    eager = _eager(model)
    return ctx.action(
        "partition",
        name=_named("partition", method),
        step="partition",
        inputs={
            "program": model.program,
            "weights": model.weights,
            **({"calls": model.calls} if run else {}),
            **eager,
        },
        outputs=[
            Output("residual", "residual", "tree"),
            Output("partitions", "partitions", "tree"),
            Output("plan", "plan.json"),
            Output("report", "report.json"),
            Output("notes", "notes.txt"),
            *([Output("state", "state.json")] if shares else []),
        ],
        params={
            "backends": [offered(entry, facts) for entry in stack],
            "external_weights": ctx.attrs.external_weights,
            "versions": sorted({"executorch", "torch", *partitioning}),
            **({"device_io": True} if ctx.attrs.device_io else {}),
            **({"shares_state": True} if shares else {}),
            **_own_kernels(model),
        },
        tools=_partition_tools(model, stack, run),
        python=tuple(eager),
        plugins=[entry.backend.partitioning for entry in stack if entry.backend.partitioning],
        preload=PRELOAD,
        resources=Resources(memory=2 << 30),
        description=_described("partition", ctx, method),
        notes="notes",
        error_text=source_places.of_program(model),
    )


def _check(
    ctx: Context[PteProgramAttrs],
    method: str,
    model: ExportedModel,
    stack: tuple[StackEntry, ...],
    facts: DeviceFacts,
) -> DerivedArtifact:
    """Declare the action that checks whether a method can be lowered; return its output."""
    eager = _eager(model)
    return ctx.action(
        "check",
        name=_named("check", method),
        step="check",
        inputs={"program": model.program, "weights": model.weights, **eager},
        outputs=[Output("checked", "checked.json")],
        params={"backends": [offered(entry, facts) for entry in stack], **_own_kernels(model)},
        tools=_partition_tools(model, stack, run=False),
        python=tuple(eager),
        plugins=[entry.backend.partitioning for entry in stack if entry.backend.partitioning],
        preload=PRELOAD,
        resources=Resources(memory=2 << 30),
        description=_described("check", ctx, method),
        error_text=source_places.of_program(model),
    )["checked"]


def _named(action: str, method: str) -> str:
    return f"{action}:{method}" if method else action


def _described(action: str, ctx: Context[PteProgramAttrs], method: str) -> str:
    model = ctx.attrs.methods.get(method) or (f"{method} of {ctx.attrs.model}" if method else ctx.attrs.model)
    stack = ctx.attrs.stacks.get(method, ctx.attrs.stack)
    return f"{action} {model}" + (f" with {stack}" if stack else "")


def _partition_tools(model: ExportedModel, stack: tuple[StackEntry, ...], run: bool) -> tuple[str, ...]:
    """Return the distributions that the partition step uses for a model; it reads example inputs if `run` is true."""
    partitioning = (tool for entry in stack for tool in entry.backend.partition_tools(entry.attributes))
    own = (tool for each in model.kernels for tool in each.tools)
    return (*_LOWERING, *partitioning, *own, *(("safetensors",) if run else ()))


def _eager(model: ExportedModel) -> dict[str, tuple[Artifact, ...]]:
    """Return the Python files that register the operators of the model's kernel libraries."""
    return {"eager": eager_files(model.kernels)} if model.kernels else {}


def _own_kernels(model: ExportedModel) -> dict[str, list[GivenLibrary]]:
    return {"kernels": given_libraries(model.kernels)} if model.kernels else {}


def _models(ctx: Context[PteProgramAttrs]) -> tuple[dict[str, ExportedModel], tuple[StackEntry, ...]]:
    """Return the model of each method by name, '' for the model of the program, and a backend for each of its parts
    that was compiled elsewhere."""
    attrs = ctx.attrs
    if (attrs.model is None) == (not attrs.methods):
        given = "both are given" if attrs.methods else "neither is given"
        raise ctx.error("methods", f"expected either 'model' or 'methods'; {given}")
    if attrs.model is not None and not (several := methods_of(ctx, attrs.model)):
        model, parts = _model(ctx, attrs.model)
        return {"": model}, parts
    if attrs.engines:
        given = f"'{attrs.model}', which has methods" if attrs.model is not None else "'methods'"
        message = f"engines take the place of submodules of one model; expected 'model', not {given}"
        raise ctx.error("engines", message)
    if attrs.model is not None:
        return {name: several[name].exported for name in sorted(several)}, ()
    for name, label in attrs.methods.items():
        if any(isinstance(each, CompiledModule) for each in ctx.providers(label)):
            raise ctx.error(("methods", name), f"'{label}' is compiled elsewhere; expected a torch_model, or 'model'")
    return {name: method_of(ctx, attrs.methods[name], name, ("methods", name)) for name in sorted(attrs.methods)}, ()


def _modules(ctx: Context[PteProgramAttrs], methods: Sequence[str]) -> dict[str, int]:
    """Return the number of each method's module: methods of one torch_model have the same."""
    owners: dict[str, int] = {}
    found: dict[str, int] = {}
    for name in methods:
        label = ctx.attrs.methods.get(name, ctx.attrs.model)
        several = label is not None and methods_of(ctx, label)
        owner = str(Label.parse(label, ctx.label.package)) if label is not None and several else f"#{name}"
        found[name] = owners.setdefault(owner, len(owners))
    return found


def _model(ctx: Context[PteProgramAttrs], label: Dep) -> tuple[ExportedModel, tuple[StackEntry, ...]]:
    """Return a program's model, and a backend for each of its parts that was compiled elsewhere."""
    attrs = ctx.attrs
    whole = [each for each in ctx.providers(label) if isinstance(each, CompiledModule)]
    if whole and attrs.engines:
        raise ctx.error("engines", f"'{label}' is compiled as a whole; expected a torch_model with submodules")
    if not attrs.engines:
        return ctx.provider(label, ExportedModel), tuple(each.backend for each in whole)
    eager = ctx.provider(label, EagerModel)
    modules = {name: ctx.provider(each, CompiledModule) for name, each in attrs.engines.items()}
    params: PartParams = {
        **eager.params,
        "parts": {
            name: {"id": name, "name": f"the engine of '{name}'", "inputs": [*each.inputs], "outputs": [*each.outputs]}
            for name, each in modules.items()
        },
    }
    kernels = ctx.provider(label, ExportedModel).kernels
    model = declare_export(ctx, {**eager.inputs, **eager.examples}, params, eager.tools, label, kernels)
    backends = [(name, each.backend) for name, each in modules.items()]
    return model, tuple(replace(each, attributes={**each.attributes, "part": name}) for name, each in backends)


def _stacks(
    ctx: Context[PteProgramAttrs], methods: Iterable[str], parts: tuple[StackEntry, ...]
) -> dict[str, tuple[StackEntry, ...]]:
    """Return the backends of each method."""
    attrs = ctx.attrs
    own = {name: ctx.provider(label, BackendStack).backends for name, label in attrs.stacks.items()}
    names = list(methods)
    for name in own:
        if name not in names:
            known = [each for each in names if each]
            hint = did_you_mean(name, known) or (f"; expected {', '.join(known)}" if known else "; expected 'stack'")
            raise ctx.error(("stacks", name), f"the program has no method '{name}'{hint}")
    common = () if attrs.stack is None else ctx.provider(attrs.stack, BackendStack).backends
    if (
        attrs.stack is None
        and (not parts or attrs.engines)
        and (lacking := [name for name in names if name not in own])
    ):
        of = f" of '{lacking[0]}'" if own else ""
        raise ctx.error("stack", f"no backends{of} are given; expected 'stack', the label of a backend_stack")
    return {name: (*parts, *own.get(name, common)) for name in names}


def _for_device(
    ctx: Context[PteProgramAttrs],
    stacks: Mapping[str, tuple[StackEntry, ...]],
    facts: DeviceFacts,
    kernels: tuple[KernelLibrary, ...],
) -> tuple[dict[str, tuple[DeviceBackend, ...]], tuple[CompiledKernels, ...]]:
    """Return the backends of each method and the kernel libraries for the device. Equal prerequisites are shared."""
    target = _target(facts)
    needed = [entry.backend.prerequisite(entry.attributes, facts) for stack in stacks.values() for entry in stack]
    made = prerequisites.declare(ctx, [*needed, *([cpp_runtime(target)] if kernels else [])])
    found = iter(made)
    backends = {
        name: tuple(DeviceBackend(entry, facts, {**next(found), **entry.files}) for entry in stack)
        for name, stack in stacks.items()
    }
    compiled = [compile_kernels(ctx, each, target, made[-1]["runtime"]) for each in kernels]
    return backends, tuple(compiled)


def _target(facts: DeviceFacts) -> str:
    """Return the machine that kernels are compiled for: the device, or that of the build."""
    return target_of(facts["arch"], facts["os"], facts["min_glibc"]) if facts else target_of(os.uname().machine)
