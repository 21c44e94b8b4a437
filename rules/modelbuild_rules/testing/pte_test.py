"""pte_test: compares a built program with its model in eager PyTorch on declared inputs, and checks budgets."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

from pydantic import Field

from modelbuild.api import (
    Artifact,
    Attrs,
    Context,
    Dep,
    LabelOf,
    Output,
    Provider,
    Resources,
    Size,
    SourceArtifact,
    Sources,
    TestAction,
    rule,
)
from modelbuild.errors import did_you_mean
from modelbuild_rules.bundle.runtime_archive import RuntimeArchive, archive_place
from modelbuild_rules.bundle.vendor_library import VendorLibrary, library_inputs, library_params, library_places
from modelbuild_rules.case_names import is_selected
from modelbuild_rules.installed_runtime import InstalledRuntime, installed_runtime
from modelbuild_rules.kernels.libraries import kernel_inputs
from modelbuild_rules.model.inputs import MethodName
from modelbuild_rules.providers import Dataset, DeviceTarget, Model, Program
from modelbuild_rules.quantization.samples import sample_inputs
from modelbuild_rules.testing.accuracy import Accuracy, accuracy_params
from modelbuild_rules.testing.attributes import Latency, TestAttrs, resources, seconds
from modelbuild_rules.testing.bisection import search_here, search_on_device
from modelbuild_rules.testing.case_params import case_params, check_names
from modelbuild_rules.testing.cases import TestInputs
from modelbuild_rules.testing.on_device import check_on_device, on_device_test
from modelbuild_rules.testing.tested_methods import compared_with, tested_methods

if TYPE_CHECKING:
    from modelbuild_rules.testing.documents import AccuracyParams, GpuNeeds, MetricParams, ToleranceParams

_ENTRY = re.compile(r"(?P<file>[\w./-]+\.py):(?P<name>[A-Za-z_]\w*)\Z")


class Tolerance(Attrs):
    """Limits of an output: |a - b| <= abs + rel * |b| for each value, b being eager PyTorch's, and the cosine."""

    abs: float | None = None
    """Allowed absolute difference of any value; by default 1e-4 for float32 and float64, 1e-2 for float16, 4e-2 for
    bfloat16, and 0 for integers and booleans."""

    rel: float | None = None
    """Allowed difference relative to eager PyTorch's value, added to `abs`; the same defaults."""

    cosine: float | None = None
    """Minimum cosine of the angle between both outputs, as vectors. If set, `abs` and `rel` apply only if set too."""

    ignore: bool = False
    """Do not compare this output; for outputs that a metric compares."""


class Metric(Attrs):
    """A number computed from the program's outputs and eager PyTorch's: by a function, or the agreement of an output's
    largest elements."""

    entry: str | None = None
    """`file.py:name` of a function, in one of `metric_srcs`. It gets both results as arrays by name."""

    top: int | None = Field(default=None, ge=1)
    """In place of a function: the fraction of the `top` largest elements of each row (the last dimension) of `output`
    whose indices both results share; 1 is top-1 agreement. An output of integers contains such indices itself."""

    output: str | None = None
    """With `top`: the name of the output."""

    min: float | None = None
    """Minimum of the number."""

    max: float | None = None
    """Maximum of the number."""


class PteTestAttrs(TestAttrs):
    """A test that compares a program with its model."""

    renamed: ClassVar[Mapping[str, str]] = {"models": "model"}

    program: Annotated[Dep, LabelOf(Program)]
    """The `pte_program`."""

    model: Annotated[Dep, LabelOf(Model)] | dict[MethodName, Annotated[Dep, LabelOf(Model)]]
    """The `torch_model` or `quantized_model` to compare with, in eager PyTorch. Of one with `methods`, it is the tested
    methods, which share their state. Or a table: the model of each method, by the method's name."""

    method: str | None = None
    """The program's method; by default the only one, or `forward`. `steps` of a case name others."""

    device: Annotated[Dep, LabelOf(DeviceTarget)] | None = None
    """The device: a `device_target`. `--device` overrides it."""

    on_device: bool = False
    """Run the program on the device itself, in a bundle, with the C++ runtime: `runners` of the `device_target`, or
    `--runner`. Without a device that can be reached, the test is not run."""

    runtime: RuntimeArchive | None = None
    """The C++ runtime: the archive that `make runtime` writes (build/runtime.tar); by default the installed one."""

    libraries: tuple[VendorLibrary, ...] = ()
    """Libraries that the program needs besides the C++ runtime, as in a `runtime_bundle`: TensorRT's. By default those
    of the system."""

    inputs: tuple[TestInputs, ...] = Field(min_length=1)
    """The cases: inputs of the program and the model."""

    tolerance: Tolerance = Tolerance()
    """Tolerance of all outputs that are not in `outputs`."""

    outputs: dict[str, Tolerance] = Field(default_factory=dict)
    """Tolerances of individual outputs, by name."""

    metrics: tuple[Metric, ...] = ()
    """Metrics to compute from the outputs of each case."""

    metric_srcs: Sources = ()
    """Python files of the functions in `metrics` and `accuracy`."""

    dataset: Annotated[Dep, LabelOf(Dataset)] | None = None
    """A `dataset` whose samples `accuracy` is computed on."""

    accuracy: tuple[Accuracy, ...] = ()
    """Numbers over the dataset, with limits: of the program, and of its loss against the model."""

    max_bytes: Size | None = None
    """Maximum size of the .pte and the .ptd together, such as "5 MB"."""

    max_delegates: int | None = None
    """Maximum number of partitions."""

    min_delegated_fraction: float | None = Field(default=None, ge=0, le=1)
    """Minimum fraction of the lowered graph's nodes that backends take."""

    max_latency_ratio: float | None = Field(default=None, gt=0)
    """Maximum ratio of the median latency to the baseline's, both measured in this run on the first case."""

    max_latency: dict[str, Latency] = Field(default_factory=dict)
    """With `on_device`: the maximum median latency on the first case, such as "8 ms", by the device's label."""

    max_latency_p95: dict[str, Latency] = Field(default_factory=dict)
    """With `on_device`: the maximum 95th percentile of the latency, by the device's label."""

    latency_runs: int = Field(default=50, ge=1, le=100_000)
    """With `on_device`: the number of measured runs, after a tenth as many others."""

    baseline: Annotated[Dep, LabelOf(Program)] | None = None
    """A `pte_program` to compare latency with; by default eager PyTorch."""

    max_memory: Size | None = None
    """Maximum memory of the process that runs the program."""

    backends: dict[str, str] = Field(default_factory=dict)
    """The backend expected to take all nodes of a submodule, by the submodule's name."""


EXAMPLE = """
[[pte_test]]
name = "net_test"
program = ":net_program"
model = ":net"
inputs = [{ name = "random", generator = { seed = 0, count = 3 } }]
"""


@rule(attrs=PteTestAttrs, example=EXAMPLE, toolchain_from=("program",))
def pte_test(ctx: Context[PteTestAttrs]) -> tuple[Provider, ...]:
    attrs = ctx.attrs
    program = ctx.provider(attrs.program, Program)
    tested = tested_methods(ctx, program, attrs.inputs)
    known = [name for case in attrs.inputs for name in case.names()]
    if not any(is_selected(name, ctx.test_filter) for name in known):
        unmatched = f"no case matches '{ctx.test_filter}'{did_you_mean(ctx.test_filter, known)}"
        return (TestAction((), filters=True, unmatched=unmatched),)
    check_on_device(ctx, program)
    own = ctx.device(DeviceTarget) if ctx.device_label is not None else None
    device = program.device or own
    arch = device.arch if device else None
    installed = None if attrs.runtime is not None else _installed_runtime(arch)
    metric_srcs = ctx.files(attrs.metric_srcs)
    files: dict[str, tuple[Artifact, ...]] = {}
    cases = []
    for index, case in enumerate(attrs.inputs):
        params, given = case_params(ctx, index, case, tested)
        cases.append(params)
        files |= given
    outputs = tested.outputs()
    if outputs is not None:
        check_names(ctx, "output", ("outputs",), attrs.outputs, outputs)
    baseline = ctx.provider(attrs.baseline, Program) if attrs.baseline else None
    selected = {"filter": ctx.test_filter} if ctx.test_filter else {}
    parity = {
        **selected,
        **({"method": tested.measured} if tested.measured is not None else {}),
        "methods": tested.params(),
        "cases": cases,
        "tolerance": _tolerance(attrs.tolerance),
        "outputs": {name: _tolerance(each) for name, each in attrs.outputs.items()},
        "metrics": [_metric(ctx, index, metric_srcs, outputs) for index in range(len(attrs.metrics))],
    }
    data = ctx.provider(attrs.dataset, Dataset) if attrs.dataset is not None else None
    if data is not None and tested.measured is None:
        expected = f"expected 'method', one of: {', '.join(tested.called)}"
        raise ctx.error("dataset", f"accuracy is that of one method; {expected}")
    accuracy = _accuracy(ctx, data, metric_srcs, outputs)
    runtime = {"runtime": ctx.file(attrs.runtime)} if attrs.runtime else {}
    libraries = library_inputs(ctx, attrs.libraries)
    inputs = {
        **tested.eager_inputs(),
        **files,
        "metric_srcs": metric_srcs,
        **{f"program.{name}": artifact for name, artifact in _files(program).items()},
    }
    if attrs.on_device:
        there = on_device_test(ctx, program, inputs, parity, tested)
        finding = search_on_device(ctx, tested, inputs, parity, there)
        return (TestAction((there.report,), flaky=attrs.flaky, bisect=finding, filters=True),)
    made = ctx.action(
        "test",
        step="pte_test",
        inputs=inputs
        | (dict(sample_inputs(data)) if data is not None and not selected else {})
        | runtime
        | libraries
        | kernel_inputs((*(baseline.kernels if baseline else ()), *program.kernels))
        | ({f"baseline.{name}": artifact for name, artifact in _files(baseline).items()} if baseline else {}),
        outputs=[Output("report", "report.json")],
        params={
            **parity,
            "budgets": {
                name: getattr(attrs, name)
                for name in ("max_bytes", "max_delegates", "min_delegated_fraction", "max_latency_ratio", "max_memory")
                if getattr(attrs, name) is not None and not selected
            },
            **({"accuracy": accuracy} if accuracy and not selected else {}),
            "backends": {} if selected else attrs.backends,
            "arch": arch,
            **_run_params(attrs, program, installed),
        },
        unkeyed={"timeout": seconds(attrs), **_places(ctx)},
        tools=("flatbuffers", *tested.tools(), *(installed.tools if installed else ())),
        python=(*tested.python(), "metric_srcs"),
        preload=("torch",),
        resources=_resources(attrs, program),
        description=f"{attrs.program} against {compared_with(attrs)}",
    )
    needed = {**inputs, **runtime, **libraries, **kernel_inputs(program.kernels)}
    run = {**parity, "arch": arch, **_run_params(attrs, program, installed)}
    bisect = search_here(ctx, tested, needed, run, _places(ctx), installed)
    return (TestAction((made["report"],), flaky=attrs.flaky, bisect=bisect, filters=True),)


def _installed_runtime(arch: str | None) -> InstalledRuntime | None:
    """Return the package with the C++ runtime for an architecture; None if one for another machine is not installed."""
    found = installed_runtime(arch)
    return found if arch in (None, os.uname().machine) or found.is_there() else None


def _run_params(attrs: PteTestAttrs, program: Program, installed: InstalledRuntime | None) -> dict[str, Any]:
    """Return the parameters of a step that runs the program (parity/runners.py)."""
    return {
        "gpu": _gpu(attrs, program),
        "libraries": library_params(attrs.libraries),
        "installed": installed.module if installed else None,
    }


def _places(ctx: Context[PteTestAttrs]) -> dict[str, Any]:
    return {"place": archive_place(ctx), "library_places": library_places(ctx)}


def _gpu(attrs: PteTestAttrs, program: Program) -> GpuNeeds:
    """Return a program's GPU requirements."""
    device = program.device
    if device is None:
        return {"count": attrs.gpus, "index": 0, "capabilities": []}
    return {"count": attrs.gpus, "index": device.gpu, "capabilities": list(device.compute_capabilities)}


def _resources(attrs: PteTestAttrs, program: Program) -> Resources:
    capabilities = program.device.compute_capabilities if program.device and attrs.gpus else ()
    return replace(resources(attrs), compute_capability=min(capabilities, key=float, default=""))


def _files(program: Program) -> dict[str, Artifact]:
    found = {"pte": program.pte, "delegation": program.delegation, "signature": program.signature}
    return found | ({"ptd": program.ptd} if program.ptd else {})


def _tolerance(tolerance: Tolerance) -> ToleranceParams:
    """Return a tolerance as JSON values. If `cosine` is set, `abs` and `rel` count only if they are set too; otherwise
    None stands for the default of the output's type."""
    values = cast("ToleranceParams", tolerance.model_dump())
    if tolerance.cosine is not None:
        given = tolerance.model_fields_set & {"abs", "rel"}
        unset = 0.0 if given else None
        if "abs" not in given:
            values["abs"] = unset
        if "rel" not in given:
            values["rel"] = unset
    return values


def _metric(
    ctx: Context[PteTestAttrs], index: int, srcs: tuple[Artifact, ...], outputs: Sequence[str] | None
) -> MetricParams:
    metric = ctx.attrs.metrics[index]
    where = ("metrics", index)
    place = f"attribute 'metrics[{index}]"
    if (metric.entry is None) == (metric.top is None):
        raise ctx.error(where, f"{place}': expected 'entry' or 'top'")
    if (metric.top is None) != (metric.output is None):
        raise ctx.error(where, f"{place}': expected 'top' and 'output' together")
    if metric.min is None and metric.max is None:
        raise ctx.error(where, f"{place}': expected 'min' or 'max'")
    limits: MetricParams = {"entry": "", "top": 0, "output": "", "min": metric.min, "max": metric.max}
    if metric.top is not None and metric.output is not None:
        if outputs is not None:
            check_names(ctx, "output", (*where, "output"), [metric.output], outputs)
        return {**limits, "top": metric.top, "output": metric.output}
    assert metric.entry is not None
    return {**limits, "entry": _function(ctx, srcs, (*where, "entry"), metric.entry)}


def _accuracy(
    ctx: Context[PteTestAttrs], data: Dataset | None, srcs: tuple[Artifact, ...], outputs: Sequence[str] | None
) -> list[AccuracyParams]:
    def check_name(where: tuple[str | int, ...], name: str) -> None:
        check_names(ctx, "output", where, [name], outputs or ())

    return accuracy_params(ctx, data, outputs, check_name, partial(_function, ctx, srcs))


def _function(
    ctx: Context[PteTestAttrs], srcs: tuple[Artifact, ...], where: tuple[str | int, ...], written: str
) -> str:
    """Return a function of the metrics' files as `path:name`."""
    attribute, index, *_ = where
    place = f"attribute '{attribute}[{index}]"
    match = _ENTRY.match(written)
    if match is None:
        raise ctx.error(where, f"{place}.entry': expected 'file.py:name', got '{written}'")
    path = f"{ctx.label.package}/{match['file']}".lstrip("/")
    if SourceArtifact(path) not in srcs:
        raise ctx.error(where, f"{place}.entry': '{match['file']}' is not among the metric_srcs")
    return f"{path}:{match['name']}"
