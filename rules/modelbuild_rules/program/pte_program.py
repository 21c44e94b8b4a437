"""pte_program: exported models, lowered with a stack of backends to a program for ExecuTorch."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar, cast

from pydantic import Field

from modelbuild.api import (
    Artifact,
    Attrs,
    Context,
    Dep,
    DerivedArtifact,
    Files,
    LabelOf,
    Output,
    OutputGroups,
    Provider,
    Resources,
    rule,
)
from modelbuild_rules.backend_api.backend import DeviceFacts
from modelbuild_rules.backend_api.cpp import cpp_runtime, target_of
from modelbuild_rules.backend_api.preload import PRELOAD
from modelbuild_rules.backend_api.prerequisite import declare_prerequisites
from modelbuild_rules.kernels.libraries import compile_kernels, eager_files, given_libraries
from modelbuild_rules.method_names import FORWARD, named, phrase, qualified
from modelbuild_rules.model import source_places
from modelbuild_rules.model.export_action import declare_export
from modelbuild_rules.model.inputs import MethodName
from modelbuild_rules.model.methods import by_method, method_of, methods_of, modules_of, nearest, place_of
from modelbuild_rules.program.backend_stack import Backends, stack_at, stack_name
from modelbuild_rules.program.check_command import GROUP
from modelbuild_rules.program.contents import program_contents
from modelbuild_rules.program.partitioned_program import (
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
    ExportedMethod,
    KernelLibrary,
    Lowering,
    Model,
    Program,
    ProgramMethod,
    StackEntry,
)
from modelbuild_rules.quantization.fit import unfit, unfit_device

if TYPE_CHECKING:
    from modelbuild_rules.kernels.documents import GivenLibrary
    from modelbuild_rules.model.documents import PartParams

_LOWERING = ("executorch", "flatbuffers", "sympy", "torch", "torchao")


_Model = Annotated[Dep, LabelOf(Model, CompiledModule)]
_Stack = Annotated[Dep, LabelOf(BackendStack)] | Backends


class PteProgramAttrs(Attrs):
    """A model, or several as methods of one program, compiled by a stack of backends for a device."""

    renamed: ClassVar[Mapping[str, str]] = {"methods": "model", "stacks": "stack"}

    model: _Model | dict[MethodName, _Model]
    """The model becomes the method `forward`, or its `methods` become the program's. It may be a `tensorrt_engine`,
    which was compiled elsewhere. In a table of models by method, a model with `methods` provides the method of this
    name. The program contains weights of several methods once."""

    stack: _Stack | dict[MethodName, _Stack] | None = None
    """Its backends; a table has a stack for each method. Required unless the model was compiled elsewhere."""

    engines: dict[str, Annotated[Dep, LabelOf(CompiledModule)]] = Field(default_factory=dict)
    """Each `tensorrt_engine` by the submodule that it replaces."""

    device: Annotated[Dep, LabelOf(DeviceTarget)] | None = None
    """The device. `--device` overrides it."""

    external_weights: bool = False
    """Write weights to a `.ptd` next to the `.pte`."""

    device_io: bool = False
    """Keep partitions' inputs and outputs on a GPU in device memory that the caller provides, without copies."""

    verify: bool = True
    """Run the linked program on the example and other inputs, and fail if it differs from its model. With a backend for
    GPUs, compare partitions before they are compiled."""


EXAMPLE = """
[[pte_program]]
name = "net_program"
model = ":net"
stack = ["xnnpack", "portable"]
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
        raise ctx.error("device_io", "no backend of the stack runs on a GPU")
    external = ctx.attrs.external_weights
    modules = modules_of(ctx, ctx.attrs.model, list(models))
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
    refusal = partial(ctx.error, "model")
    partitioned = PartitionedProgram(ctx.label.name, methods, facts, external, sidecars, refusal)
    promised = ctx.expand(reads=partitioned.plans, promises=partitioned.outputs, then=partitioned.compile_and_link)
    program = Program(
        promised["pte"],
        promised.get("ptd"),
        promised["delegation"],
        promised["signature"],
        {
            each.name: ProgramMethod(
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
        program = replace(program, verified=verify_action(ctx, program, models))
    files = [program.pte, *(promised[name] for name in partitioned.extra), program.delegation, program.signature]
    files += [program.verified] if program.verified else []
    files += [file for each in kernels for file in (each.library, each.description)]
    contents = program_contents(f"{ctx.label.name}.pte", program.delegation, program.verified)
    return (
        program,
        Files(tuple(files)),
        OutputGroups({GROUP: checked}),
        contents,
    )


def _check_stack(
    ctx: Context[PteProgramAttrs],
    name: str,
    model: ExportedMethod,
    stack: Sequence[StackEntry],
    parts: Sequence[StackEntry],
    facts: DeviceFacts,
) -> None:
    """Raise LoadingError for a method's stack that does not fit the device, or the model's recipe."""
    attrs = ctx.attrs
    place = place_of("stack", attrs.stack, name)
    of = place_of("model", attrs.model, name)
    label = by_method(attrs.model, name)
    for entry in stack:
        problem = entry.backend.problem(entry.attributes, entry.backend.facts(facts))
        if problem and entry in parts:
            engine = ("engines", entry.attributes["part"]) if attrs.engines else of
            raise ctx.error(engine, f"{problem} (device {ctx.device_label})")
        if problem:
            given = stack_name(by_method(attrs.stack, name))
            raise ctx.error(place, f"{problem} (device {ctx.device_label}, stack {given})")
    if problem := unfit(model, stack):
        raise ctx.error(place, f"{problem}; expected a stack for the recipe of {label}")
    if problem := unfit_device(model, facts):
        raise ctx.error(of, f"{problem} (device {ctx.device_label}, model {label})")


def _partition(
    ctx: Context[PteProgramAttrs],
    method: str,
    model: ExportedMethod,
    stack: tuple[StackEntry, ...],
    facts: DeviceFacts,
    flags: tuple[bool, bool],
) -> Mapping[str, DerivedArtifact]:
    """Declare the action that lowers a method; return its outputs. If each backend compiles without the values of
    weights, a first action lowers without them, and a second one adds them. `flags`: check its partitions on a recorded
    call, and share its state with other methods."""
    run, shares = flags
    partitioning = [tool for entry in stack for tool in entry.backend.partition_tools(entry.attributes)]
    eager = _eager(model)
    params = {
        "backends": [offered(entry, facts) for entry in stack],
        "external_weights": ctx.attrs.external_weights,
        "versions": sorted({"executorch", "torch", *partitioning}),
        **({"device_io": True} if ctx.attrs.device_io else {}),
        **({"shares_state": True} if shares else {}),
        **_own_kernels(model),
    }
    lower = partial(
        ctx.action,
        python=tuple(eager),
        plugins=[entry.backend.partitioning for entry in stack if entry.backend.partitioning],
        preload=PRELOAD,
        resources=Resources(memory=2 << 30),
        error_text=source_places.of_program(model, stack),
    )
    separate = any(not entry.backend.is_catch_all for entry in stack)
    structure: Mapping[str, DerivedArtifact] = {}
    if separate:
        structure = lower(
            "partition",
            name=named("partition", method),
            step="partition",
            inputs={"program": model.program, **eager},
            params={**params, **({"compared": True} if run else {})},
            outputs=[Output("structure", "structure", "tree")],
            tools=_partition_tools(model, stack, run=False),
            description=_described("partition", ctx, method),
        )
    mnemonic = "weights" if separate else "partition"
    return lower(
        mnemonic,
        name=named(mnemonic, method),
        step=mnemonic,
        inputs={
            **structure,
            "program": model.program,
            "weights": model.weights,
            **({"calls": model.calls} if run else {}),
            **eager,
        },
        params=params,
        outputs=[
            Output("residual", "residual", "tree"),
            Output("partitions", "partitions", "tree"),
            Output("plan", "plan.json"),
            Output("report", "report.json"),
            Output("notes", "notes.txt"),
            *([Output("state", "state.json")] if shares else []),
        ],
        tools=_partition_tools(model, stack, run),
        description=_described(mnemonic, ctx, method),
        notes="notes",
    )


def _check(
    ctx: Context[PteProgramAttrs],
    method: str,
    model: ExportedMethod,
    stack: tuple[StackEntry, ...],
    facts: DeviceFacts,
) -> DerivedArtifact:
    """Declare the action that checks whether a method can be lowered; return its output."""
    eager = _eager(model)
    return ctx.action(
        "check",
        name=named("check", method),
        step="check",
        inputs={"program": model.program, "weights": model.weights, "debug": model.debug, **eager},
        outputs=[Output("checked", qualified(method, "checked.json"))],
        params={"backends": [offered(entry, facts) for entry in stack], **_own_kernels(model)},
        tools=_partition_tools(model, stack, run=False),
        python=tuple(eager),
        plugins=[entry.backend.partitioning for entry in stack if entry.backend.partitioning],
        preload=PRELOAD,
        resources=Resources(memory=2 << 30),
        description=_described("check", ctx, method),
        error_text=source_places.of_program(model, stack),
    )["checked"]


def _described(action: str, ctx: Context[PteProgramAttrs], method: str) -> str:
    given = ctx.attrs.model
    model = given[method] if isinstance(given, dict) else phrase(method, given)
    stack = stack_name(by_method(ctx.attrs.stack, method))
    return f"{action} {model}" + (f" with {stack}" if stack else "")


def _partition_tools(model: ExportedMethod, stack: tuple[StackEntry, ...], run: bool) -> tuple[str, ...]:
    """Return the distributions that the partition step uses for a model; it reads example inputs if `run` is true."""
    partitioning = (tool for entry in stack for tool in entry.backend.partition_tools(entry.attributes))
    own = (tool for each in model.kernels for tool in each.tools)
    return (*_LOWERING, *partitioning, *own, *(("safetensors",) if run else ()))


def _eager(model: ExportedMethod) -> dict[str, tuple[Artifact, ...]]:
    """Return the Python files that register the operators of the model's kernel libraries."""
    return {"eager": eager_files(model.kernels)} if model.kernels else {}


def _own_kernels(model: ExportedMethod) -> dict[str, list[GivenLibrary]]:
    return {"kernels": given_libraries(model.kernels)} if model.kernels else {}


def _models(ctx: Context[PteProgramAttrs]) -> tuple[dict[str, ExportedMethod], tuple[StackEntry, ...]]:
    """Return the model of each method by name, and a backend for each of its parts that was compiled elsewhere."""
    given = ctx.attrs.model
    if not isinstance(given, dict):
        methods = methods_of(ctx, given)
        if list(methods) == [FORWARD]:
            model, parts = _model(ctx, given)
            return {FORWARD: model}, parts
        _refuse_engines(ctx, f"'{given}', which has methods")
        return {name: each.exported for name, each in methods.items()}, ()
    if not given:
        raise ctx.error("model", "expected the label of a torch_model, or a table with one or more")
    _refuse_engines(ctx, "a table of models")
    for name, label in given.items():
        if any(isinstance(each, CompiledModule) for each in ctx.providers(label)):
            raise ctx.error(("model", name), f"'{label}' is compiled elsewhere; expected a torch_model, or it alone")
    return {name: method_of(ctx, given[name], name, ("model", name)).exported for name in sorted(given)}, ()


def _refuse_engines(ctx: Context[PteProgramAttrs], given: str) -> None:
    if ctx.attrs.engines:
        message = "engines take the place of submodules of one model"
        raise ctx.error("engines", f"{message}; expected one model with 'inputs', not {given}")


def _model(ctx: Context[PteProgramAttrs], label: Dep) -> tuple[ExportedMethod, tuple[StackEntry, ...]]:
    """Return a program's model, and a backend for each of its parts that was compiled elsewhere."""
    attrs = ctx.attrs
    whole = [each for each in ctx.providers(label) if isinstance(each, CompiledModule)]
    if whole and attrs.engines:
        raise ctx.error("engines", f"'{label}' is compiled as a whole; expected a torch_model with submodules")
    method = methods_of(ctx, label)[FORWARD]
    if not attrs.engines:
        return method.exported, tuple(each.backend for each in whole)
    eager = method.eager
    if eager is None:
        raise ctx.error("engines", f"'{label}' has no module in Python; expected a torch_model with submodules")
    modules = {name: ctx.provider(each, CompiledModule) for name, each in attrs.engines.items()}
    params: PartParams = {
        **eager.params,
        "parts": {
            name: {"id": name, "name": f"the engine of '{name}'", "inputs": [*each.inputs], "outputs": [*each.outputs]}
            for name, each in modules.items()
        },
    }
    kernels = method.exported.kernels
    model = declare_export(ctx, {**eager.inputs, **eager.examples}, params, eager.tools, label, kernels)
    backends = [(name, each.backend) for name, each in modules.items()]
    return model, tuple(replace(each, attributes={**each.attributes, "part": name}) for name, each in backends)


def _stacks(
    ctx: Context[PteProgramAttrs], methods: Iterable[str], parts: tuple[StackEntry, ...]
) -> dict[str, tuple[StackEntry, ...]]:
    """Return the backends of each method."""
    given, names = ctx.attrs.stack, list(methods)
    for name in given if isinstance(given, dict) else ():
        if name not in names:
            raise ctx.error(("stack", name), f"the program has no method '{name}'{nearest(name, names)}")
    found: dict[str, tuple[StackEntry, ...]] = {}
    for name in names:
        own = cast("Dep | Backends | None", by_method(given, name))
        if own is None and (not parts or ctx.attrs.engines):
            of = f" of '{name}'" if given else ""
            known = ", ".join(each.name for each in ctx.extensions("backend"))
            raise ctx.error("stack", f"no backends{of} are given; expected a list of some of {known}")
        found[name] = (*parts, *(stack_at(ctx, place_of("stack", given, name), own) if own is not None else ()))
    return found


def _for_device(
    ctx: Context[PteProgramAttrs],
    stacks: Mapping[str, tuple[StackEntry, ...]],
    facts: DeviceFacts,
    kernels: tuple[KernelLibrary, ...],
) -> tuple[dict[str, tuple[DeviceBackend, ...]], tuple[CompiledKernels, ...]]:
    """Return the backends of each method and the kernel libraries for the device. Equal prerequisites are shared."""
    target = _target(facts)
    entries = [entry for stack in stacks.values() for entry in stack]
    needed = [each.backend.prerequisite(each.attributes, each.backend.facts(facts)) for each in entries]
    made = declare_prerequisites(ctx, [*needed, *([cpp_runtime(target)] if kernels else [])])
    found = iter(made)
    backends = {
        name: tuple(DeviceBackend(entry, entry.backend.facts(facts), {**next(found), **entry.files}) for entry in stack)
        for name, stack in stacks.items()
    }
    compiled = [compile_kernels(ctx, each, target, made[-1]["runtime"]) for each in kernels]
    return backends, tuple(compiled)


def _target(facts: DeviceFacts) -> str:
    """Return the machine that kernels are compiled for: the device, or the machine of the build."""
    return target_of(facts["arch"], facts["os"], facts["min_glibc"]) if facts else target_of(os.uname().machine)
