"""runtime_bundle: a self-contained folder with programs and the part of the C++ runtime that runs them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator

from modelbuild.api import (
    Artifact,
    Attrs,
    Context,
    Dep,
    DerivedArtifact,
    Files,
    Label,
    LabelOf,
    Output,
    Provider,
    Sources,
    rule,
)
from modelbuild_rules.bundle.contents import bundle_contents
from modelbuild_rules.bundle.runtime_attributes import Runtime, library_params, runtime_inputs, runtime_places
from modelbuild_rules.installed_runtime import installed_runtime
from modelbuild_rules.kernels.libraries import kernel_inputs
from modelbuild_rules.model.methods import by_method
from modelbuild_rules.providers import DeviceTarget, Program

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")
_FOLDERS = ("bin", "files", "lib", "licenses", "program")


def _program_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"'{name}' cannot name a program; expected letters, digits, '_' and '-'")
    if name in _FOLDERS:
        raise ValueError(f"'{name}' is a folder of each bundle; expected another name")
    return name


_Program = Annotated[Dep, LabelOf(Program)]


class RuntimeBundleAttrs(Attrs):
    """Programs, modelbuild-run, their libraries, a manifest and a `run.sh`.

    A bundle runs on any Linux with the manifest's glibc, without Python, torch or a CUDA toolkit; programs on a GPU
    need NVIDIA's driver.
    """

    renamed: ClassVar[Mapping[str, str]] = {"programs": "program", "libraries": "runtime.libraries"}

    program: _Program | dict[Annotated[str, AfterValidator(_program_name)], _Program]
    """The program, or a table of several by name. Programs with `external_weights` share one file of weights."""

    runtime: Runtime = Runtime()
    """The C++ runtime. The manifest lists libraries that the device must have."""

    device: Annotated[Dep, LabelOf(DeviceTarget)] | None = None
    """The device; by default that of the first program that names one. `--device` overrides it."""

    files: Sources = ()
    """Other files for the bundle's folder `files`: files of the workspace at their paths, files of targets at
    `PACKAGE/TARGET/NAME`."""

    tar: bool = False
    """Pack the folder into `NAME.tar.gz`."""


EXAMPLE = """
[[runtime_bundle]]
name = "net_bundle"
program = ":net_program"
"""


@rule(attrs=RuntimeBundleAttrs, example=EXAMPLE, toolchain_from=("program",), device_from=("program",))
def runtime_bundle(ctx: Context[RuntimeBundleAttrs]) -> tuple[Provider, ...]:
    programs = _programs(ctx)
    device = _device(ctx, programs)
    made = bundle_action(
        ctx, programs, device, "bundle", ctx.label.name, tar=ctx.attrs.tar, files=ctx.files(ctx.attrs.files)
    )
    return Files((made,)), bundle_contents(made, ctx.extensions("backend"))


def bundle_action(
    ctx: Context[Any],
    programs: Mapping[str, Program],
    device: DeviceTarget | None,
    mnemonic: str,
    name: str,
    *,
    tar: bool = False,
    files: tuple[Artifact, ...] = (),
) -> DerivedArtifact:
    """Declare the action that makes a bundle of programs (by name) and other files with the target's attribute
    `runtime`; return its output, a folder or an archive called `name`."""
    arch = device.arch if device else None
    runtime, installed = ctx.attrs.runtime, installed_runtime(arch)
    several = list(programs.values())
    kernels = dict.fromkeys(each for program in several for each in program.kernels)
    return ctx.action(
        mnemonic,
        step="modelbuild_rules.bundle.steps.runtime_bundle",
        inputs={
            "pte": [each.pte for each in several],
            "signature": [each.signature for each in several],
            "delegation": [each.delegation for each in several],
            "verified": [each.verified for each in several if each.verified is not None],
            **({"ptd": data} if (data := _data(ctx, programs)) else {}),
            **runtime_inputs(ctx, runtime),
            **kernel_inputs(tuple(kernels)),
            "files": files,
        },
        data=("files",),
        outputs=[Output("bundle", f"{name}.tar.gz") if tar else Output("bundle", name, "tree")],
        params={
            "name": name,
            "programs": list(programs),
            "tar": tar,
            "arch": arch,
            "capabilities": sorted(device.compute_capabilities) if device else None,
            "libraries": library_params(runtime),
            **({} if runtime.archive else {"installed": installed.module}),
        },
        unkeyed=runtime_places(ctx),
        tools=("numpy",) if runtime.archive else ("numpy", *installed.tools),
        description=f"bundle {', '.join(programs)} with {'its' if len(programs) == 1 else 'their'} runtime",
    )["bundle"]


def _data(ctx: Context[Any], programs: Mapping[str, Program]) -> Artifact | None:
    """Return the file of weights outside the programs; None if there are none. Several programs get a new file with the
    weights of all."""
    files = [each.ptd for each in programs.values() if each.ptd is not None]
    if len(files) < 2:
        return files[0] if files else None
    return ctx.action(
        "weights",
        step="modelbuild_rules.bundle.steps.shared_weights",
        inputs={"ptd": files},
        outputs=[Output("ptd", "weights.ptd")],
        params={"programs": list(programs)},
        tools=("flatbuffers", "numpy"),
        description=f"join the weights of {', '.join(programs)}",
    )["ptd"]


def _programs(ctx: Context[RuntimeBundleAttrs]) -> dict[str, Program]:
    """Return the programs by name."""
    given = ctx.attrs.program
    if not isinstance(given, dict):
        return {Label.parse(given, ctx.label.package).name: ctx.provider(given, Program)}
    if not given:
        raise ctx.error("program", "expected the label of a pte_program, or a table with one or more")
    found = {name: ctx.provider(given[name], Program) for name in sorted(given)}
    inside = [name for name, each in found.items() if each.ptd is None]
    if inside and len(inside) < len(found):
        message = f"'{given[inside[0]]}' contains its weights, and those of others are outside"
        raise ctx.error(("program", inside[0]), f"{message}; expected the same 'external_weights' of all")
    return found


def _device(ctx: Context[RuntimeBundleAttrs], programs: Mapping[str, Program]) -> DeviceTarget | None:
    """Return the bundle's device; None if neither the bundle nor a program has a device. Raises LoadingError for a
    device that a program is not compiled for."""
    own = {name: each.device for name, each in programs.items() if each.device is not None}
    if ctx.attrs.device is not None:
        device, whose = ctx.device(DeviceTarget), "the bundle's device"
    elif own:
        first, device = next(iter(own.items()))
        whose = f"the device of '{by_method(ctx.attrs.program, first)}'"
    else:
        return None
    for name, each in own.items():
        if machine_of(device) != machine_of(each):
            label = by_method(ctx.attrs.program, name)
            place = "device" if ctx.attrs.device is not None else ("program", name)
            message = f"'{label}' is compiled for {machine_of(each)}; expected {machine_of(device)}, {whose}"
            raise ctx.error(place, message)
    return device


def machine_of(device: DeviceTarget) -> str:
    """Return the properties that a program and a device must share, as text."""
    capabilities = sorted(device.compute_capabilities)
    gpu = f" with compute capability {', '.join(capabilities)}" if capabilities else ""
    return f"{device.os} on {device.arch}{gpu}"
