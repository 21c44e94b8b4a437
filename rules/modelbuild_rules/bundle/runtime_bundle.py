"""runtime_bundle: a self-contained folder with a program and the part of the C++ runtime that runs it."""

from __future__ import annotations

from typing import Annotated, Any, Protocol

from modelbuild.api import Attrs, Context, Dep, DerivedArtifact, Files, Label, LabelOf, Output, Provider, rule
from modelbuild_rules.bundle.contents import bundle_contents
from modelbuild_rules.bundle.installed_runtime import installed_runtime
from modelbuild_rules.bundle.runtime_archive import RuntimeArchive, archive_place
from modelbuild_rules.bundle.vendor_library import VendorLibrary, library_inputs, library_params, library_places
from modelbuild_rules.kernels.libraries import kernel_inputs
from modelbuild_rules.providers import DeviceTarget, Program


class RuntimeBundleAttrs(Attrs):
    """A program, modelbuild-run and the libraries that this program needs, a manifest and a `run.sh`.

    A bundle runs on any Linux with the glibc version in the manifest. It needs no Python, torch or CUDA toolkit;
    programs that run on a GPU need NVIDIA's driver.
    """

    program: Annotated[Dep, LabelOf(Program)]
    """The program: a `pte_program`."""

    runtime: RuntimeArchive | None = None
    """The archive that `make runtime` writes for the device's architecture (build/runtime.tar); by default the runtime
    that `pip install 'modelbuild[runtime]'` installs."""

    device: Annotated[Dep, LabelOf(DeviceTarget)] | None = None
    """The device: a `device_target`; by default the program's. `--device` overrides it."""

    libraries: tuple[VendorLibrary, ...] = ()
    """Libraries that the program needs and that are not part of the runtime: TensorRT's. Without them, the device must
    have them, and the manifest states which."""

    tar: bool = False
    """Pack the folder into one file, `NAME.tar.gz`."""


EXAMPLE = """
[[runtime_bundle]]
name = "net_bundle"
program = ":net_program"
"""


@rule(attrs=RuntimeBundleAttrs, example=EXAMPLE, toolchain_from=("program",))
def runtime_bundle(ctx: Context[RuntimeBundleAttrs]) -> tuple[Provider, ...]:
    program = ctx.provider(ctx.attrs.program, Program)
    device = _device(ctx, program)
    made = bundle_action(ctx, program, device, ctx.attrs, "bundle", ctx.label.name, ctx.attrs.tar)
    return Files((made,)), bundle_contents(made)


class _Runtime(Protocol):
    """The attributes of a rule that bundles a program."""

    @property
    def program(self) -> Dep: ...

    @property
    def runtime(self) -> RuntimeArchive | None: ...

    @property
    def libraries(self) -> tuple[VendorLibrary, ...]: ...


def bundle_action(
    ctx: Context[Any],
    program: Program,
    device: DeviceTarget | None,
    attrs: _Runtime,
    mnemonic: str,
    name: str,
    tar: bool = False,
) -> DerivedArtifact:
    """Declare the action that makes a bundle, a folder or an archive called `name`; return its output."""
    arch = device.arch if device else None
    archive, installed = attrs.runtime, installed_runtime(arch)
    return ctx.action(
        mnemonic,
        step="modelbuild_rules.bundle.steps.runtime_bundle",
        inputs={
            "pte": program.pte,
            "signature": program.signature,
            "delegation": program.delegation,
            **({"runtime": ctx.file(archive)} if archive else {}),
            **({"ptd": program.ptd} if program.ptd else {}),
            **library_inputs(ctx, attrs.libraries),
            **kernel_inputs(program.kernels),
        },
        outputs=[Output("bundle", f"{name}.tar.gz") if tar else Output("bundle", name, "tree")],
        params={
            "name": name,
            "program": Label.parse(attrs.program, ctx.label.package).name,
            "tar": tar,
            "arch": arch,
            "capabilities": sorted(device.compute_capabilities) if device else None,
            "libraries": library_params(attrs.libraries),
            **({} if archive else {"installed": installed.module}),
        },
        unkeyed={"place": archive_place(ctx), "library_places": library_places(ctx)},
        tools=("numpy",) if archive else ("numpy", installed.distribution),
        description=f"bundle {attrs.program} with its runtime",
    )["bundle"]


def _device(ctx: Context[RuntimeBundleAttrs], program: Program) -> DeviceTarget | None:
    """Return the bundle's device; None if neither the bundle nor the program has one. Raises LoadingError for a device
    that the program is not compiled for."""
    device = ctx.device(DeviceTarget) if ctx.attrs.device is not None else program.device
    if device is not None and program.device is not None and machine_of(device) != machine_of(program.device):
        message = f"'{ctx.attrs.program}' is compiled for {machine_of(program.device)}; expected {machine_of(device)}"
        raise ctx.error("device", f"{message}, the bundle's device")
    return device


def machine_of(device: DeviceTarget) -> str:
    """Return the properties that a program and a device must share, as text."""
    capabilities = sorted(device.compute_capabilities)
    gpu = f" with compute capability {', '.join(capabilities)}" if capabilities else ""
    return f"{device.os} on {device.arch}{gpu}"
