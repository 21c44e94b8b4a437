"""The actions of a pte_test whose program runs on this machine: the test, and the search for the first wrong node."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from modelbuild.api import Artifact, Context, DerivedArtifact, Output, Resources
from modelbuild_rules.bundle.runtime_attributes import library_params, runtime_inputs, runtime_places
from modelbuild_rules.installed_runtime import InstalledRuntime, installed_runtime
from modelbuild_rules.kernels.libraries import kernel_inputs
from modelbuild_rules.providers import Dataset, DeviceTarget, Program
from modelbuild_rules.quantization.samples import sample_inputs
from modelbuild_rules.testing.attributes import budgets, resources, seconds
from modelbuild_rules.testing.bisection import search_here
from modelbuild_rules.testing.comparison import Comparison, program_files
from modelbuild_rules.testing.on_device import device_limit
from modelbuild_rules.testing.tested_methods import TestedMethods, compared_with

if TYPE_CHECKING:
    from modelbuild_rules.testing.documents import GpuNeeds


def test_here(
    ctx: Context[Any], program: Program, compared: Comparison, tested: TestedMethods
) -> tuple[DerivedArtifact, DerivedArtifact | None]:
    """Declare the actions. Return the report of the test and the finding of the search; None if a search is
    impossible."""
    attrs = ctx.attrs
    own = ctx.device(DeviceTarget) if ctx.device_label is not None else None
    device = program.device or own
    arch = device.arch if device else None
    installed = None if attrs.runtime.archive is not None else _installed_runtime(arch)
    runs = {
        "arch": arch,
        "gpu": _gpu(attrs.gpus, program),
        "libraries": library_params(attrs.runtime),
        "installed": installed.module if installed else None,
    }
    needed = {**compared.inputs, **runtime_inputs(ctx, attrs.runtime)}
    baseline = ctx.provider(attrs.latency.baseline, Program) if attrs.latency.baseline else None
    report = ctx.action(
        "test",
        step="pte_test",
        inputs={
            **needed,
            **({} if compared.selected else _measured(ctx)),
            **kernel_inputs((*(baseline.kernels if baseline else ()), *program.kernels)),
            **({f"baseline.{name}": each for name, each in program_files(baseline).items()} if baseline else {}),
        },
        outputs=[Output("report", "report.json")],
        params={
            **compared.params,
            "budgets": {} if compared.selected else budgets(attrs.limits, attrs.latency, on_device=False),
            **_estimated(ctx, compared),
            **({"accuracy": compared.accuracy} if compared.accuracy and not compared.selected else {}),
            "backends": {} if compared.selected else attrs.expect_backends,
            **runs,
        },
        unkeyed={"timeout": seconds(attrs), **runtime_places(ctx)},
        tools=("flatbuffers", *tested.tools(), *(installed.tools if installed else ())),
        python=(*tested.python(), "metric_srcs"),
        data=tested.data(),
        preload=("torch",),
        resources=_resources(ctx, program),
        description=f"{attrs.program} against {compared_with(attrs)}",
    )["report"]
    inputs = {**needed, **kernel_inputs(program.kernels)}
    finding = search_here(ctx, tested, inputs, {**compared.params, **runs}, runtime_places(ctx), installed)
    return report, finding


def _estimated(ctx: Context[Any], compared: Comparison) -> dict[str, float]:
    """Return the limit of the estimated latency in milliseconds, if the test checks it."""
    limit = device_limit(ctx, "max") if ctx.attrs.latency.estimated and not compared.selected else None
    return {} if limit is None else {"estimated": limit}


def _installed_runtime(arch: str | None) -> InstalledRuntime | None:
    """Return the package with the C++ runtime for an architecture; None if the package for another machine is not
    installed."""
    found = installed_runtime(arch)
    return found if arch in (None, os.uname().machine) or found.is_there() else None


def _measured(ctx: Context[Any]) -> Mapping[str, Artifact | tuple[Artifact, ...]]:
    """Return the samples of the dataset that metrics are computed on."""
    accuracy = ctx.attrs.accuracy
    return {} if accuracy is None else sample_inputs(ctx.provider(accuracy.dataset, Dataset))


def _gpu(count: int, program: Program) -> GpuNeeds:
    """Return a program's GPU requirements."""
    device = program.device
    if device is None:
        return {"count": count, "index": 0, "capabilities": []}
    return {"count": count, "index": device.gpu, "capabilities": list(device.compute_capabilities)}


def _resources(ctx: Context[Any], program: Program) -> Resources:
    capabilities = program.device.compute_capabilities if program.device and ctx.attrs.gpus else ()
    return replace(resources(ctx.attrs), compute_capability=min(capabilities, key=float, default=""))
