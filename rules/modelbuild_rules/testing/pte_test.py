"""pte_test: compares a built program with its model in eager PyTorch on declared inputs, and checks budgets."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal, cast

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
    Source,
    SourceArtifact,
    Sources,
    TestAction,
    rule,
)
from modelbuild.errors import did_you_mean
from modelbuild_rules.bundle.installed_runtime import InstalledRuntime, installed_runtime
from modelbuild_rules.bundle.runtime_archive import RuntimeArchive, archive_place
from modelbuild_rules.bundle.vendor_library import VendorLibrary, library_inputs, library_params, library_places
from modelbuild_rules.kernels.libraries import kernel_inputs
from modelbuild_rules.model.methods import eager_method_of, methods_of
from modelbuild_rules.providers import Dataset, DeviceTarget, ExportedModel, ModelMethods, Program
from modelbuild_rules.quantization.samples import sample_inputs
from modelbuild_rules.testing.accuracy import Accuracy, accuracy_params
from modelbuild_rules.testing.attributes import Latency, TestAttrs, resources, seconds
from modelbuild_rules.testing.bisection import search_here, search_on_device
from modelbuild_rules.testing.case_names import case_names, is_selected
from modelbuild_rules.testing.on_device import check_on_device, on_device_test

if TYPE_CHECKING:
    from modelbuild_rules.testing.documents import AccuracyParams, GpuNeeds, MetricParams, ToleranceParams

_ENTRY = re.compile(r"(?P<file>[\w./-]+\.py):(?P<name>[A-Za-z_]\w*)\Z")


class Generator(Attrs):
    """Inputs drawn by numpy's default_rng(seed + number of the case), one after another in the program's order."""

    seed: int = Field(ge=0)
    """Seed of all values."""

    count: int = Field(default=1, ge=1, le=1000)
    """Number of cases to draw."""

    calls: int = Field(default=1, ge=1, le=1000)
    """Number of calls in each case, one after another, with inputs of their own: see `calls` of a case."""

    distribution: Literal["uniform", "normal"] = "uniform"
    """Distribution of floating-point values: uniform in `range`, or normal with `mean` and `std`. Integers are uniform
    in `range`, both ends included; booleans are true with probability 1/2."""

    range: tuple[float, float] | None = None
    """Lowest and highest value; by default the range that the model declares for the input, else 0 and 1."""

    mean: float = 0.0
    """Mean of the normal distribution."""

    std: float = Field(default=1.0, ge=0)
    """Standard deviation of the normal distribution."""

    sizes: dict[str, int] = Field(default_factory=dict)
    """Sizes of dynamic dimensions, by name; by default 2, or the nearest allowed size."""


class TestInputs(Attrs):
    """A case: each input from a file, or all inputs from a generator. It starts with the model's initial state."""

    name: str
    """The case's name in the report."""

    files: dict[str, Source] = Field(default_factory=dict)
    """A `.npy`, `.json` or picture for each input, read as `modelbuild run` reads it."""

    calls: tuple[dict[str, Source], ...] = ()
    """In place of `files`: several calls, one after another, each a table of files. State that a call leaves, such as a
    cache of keys and values, is that of the next call. The outputs of each call are compared."""

    generator: Generator | None = None
    """The generator that draws the inputs."""

    def names(self) -> list[str]:
        """Return the names of the cases in the report."""
        return case_names(self.name, self.generator.count if self.generator else 1)


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

    program: Annotated[Dep, LabelOf(Program)]
    """The `pte_program`."""

    model: Annotated[Dep, LabelOf(ExportedModel, ModelMethods)]
    """The `torch_model` or `quantized_model` to compare with, in eager PyTorch. Of a `torch_model` with `methods`, it
    is the tested method."""

    method: str | None = None
    """The program's method; by default the only one, or `forward`."""

    device: Annotated[Dep, LabelOf(DeviceTarget)] | None = None
    """The device: a `device_target`. `--device` overrides it."""

    on_device: bool = False
    """Run the program on the device itself, in a bundle, with the C++ runtime: `runners` of the `device_target`, or
    `--runner`. Without a device that can be reached, the test is not run."""

    cpp_runtime: bool = False
    """Run the program with the C++ runtime. True for tests with `runtime` or `gpus` and, if the runtime is installed,
    for a program of another architecture, or with kernels that ExecuTorch lacks; ExecuTorch's Python runtime runs the
    others on the CPU."""

    runtime: RuntimeArchive | None = None
    """The C++ runtime: the archive that `make runtime` writes (build/runtime.tar); by default the runtime that
    `pip install 'modelbuild[runtime]'` installs."""

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
    """Maximum memory by which loading the program and its first run raise the process's peak, in ExecuTorch's Python
    runtime."""

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
    method = _method(ctx, program)
    eager = eager_method_of(ctx, attrs.model, method, ("model",))
    known = [name for case in attrs.inputs for name in case.names()]
    if not any(is_selected(name, ctx.test_filter) for name in known):
        unmatched = f"no case matches '{ctx.test_filter}'{did_you_mean(ctx.test_filter, known)}"
        return (TestAction((), filters=True, unmatched=unmatched),)
    check_on_device(ctx, program)
    own = ctx.device(DeviceTarget) if ctx.device_label is not None else None
    device = program.device or own
    arch = device.arch if device else None
    installed = _installed_runtime(attrs, arch)
    cpp = attrs.runtime is not None or installed is not None or attrs.on_device
    # Only the lowered program has the names of its kernels, so the step decides.
    spare = None if cpp or attrs.max_memory is not None else _spare_runtime(arch)
    runtime_package = installed or spare
    if attrs.libraries and not cpp:
        message = "only the C++ runtime loads libraries; expected 'cpp_runtime = true', 'runtime' or 'gpus' as well"
        raise ctx.error("libraries", message)
    if cpp and attrs.max_memory is not None:
        message = "memory is measured in ExecuTorch's Python runtime only"
        raise ctx.error("max_memory", f"{message}; expected no 'runtime', 'cpp_runtime' or 'gpus'")
    metric_srcs = ctx.files(attrs.metric_srcs)
    files: dict[str, tuple[Artifact, ...]] = {}
    cases = []
    for index, case in enumerate(attrs.inputs):
        if [bool(case.files), bool(case.calls), case.generator is not None].count(True) != 1:
            message = f"case '{case.name}': expected one of 'files', 'calls' and 'generator'"
            raise ctx.error(("inputs", index), message)
        calls = case.calls or ((case.files,) if case.files else ())
        names = [each["name"] for each in eager.params["inputs"]]
        for number, given in enumerate(calls):
            where = ("inputs", index, *(("calls", number) if case.calls else ("files",)))
            _check_names(ctx, "input", where, given, names)
            if missing := [name for name in names if name not in given]:
                which = f"call {number + 1} of case" if case.calls else "case"
                raise ctx.error(where, f"{which} '{case.name}': no file for the input '{missing[0]}'")
            for name, source in given.items():
                files[f"case.{index}.{number}.{name}"] = (ctx.file(source),)
        if case.generator:
            if case.generator.range and not case.generator.range[0] <= case.generator.range[1]:
                raise ctx.error(("inputs", index, "generator", "range"), "expected [lowest, highest]")
            where = ("inputs", index, "generator", "sizes")
            _check_names(ctx, "dynamic dimension", where, case.generator.sizes, list(eager.params["dynamic"]))
        drawn = case.generator.model_dump(mode="json") if case.generator else None
        cases.append({"name": case.name, "calls": [sorted(given) for given in calls], "generator": drawn})
    if eager.params["outputs"] is not None:
        _check_names(ctx, "output", ("outputs",), attrs.outputs, eager.params["outputs"])
    baseline = ctx.provider(attrs.baseline, Program) if attrs.baseline else None
    selected = {"filter": ctx.test_filter} if ctx.test_filter else {}
    parity = {
        **selected,
        **({"method": method} if method != "forward" else {}),
        "eager": dict(eager.params),
        "cases": cases,
        "tolerance": _tolerance(attrs.tolerance),
        "outputs": {name: _tolerance(each) for name, each in attrs.outputs.items()},
        "metrics": [_metric(ctx, index, metric_srcs, eager.params["outputs"]) for index in range(len(attrs.metrics))],
    }
    data = ctx.provider(attrs.dataset, Dataset) if attrs.dataset is not None else None
    accuracy = _accuracy(ctx, data, metric_srcs, eager.params["outputs"])
    runtime = {"runtime": ctx.file(attrs.runtime)} if attrs.runtime else {}
    libraries = library_inputs(ctx, attrs.libraries)
    inputs = {
        **eager.inputs,
        **files,
        "metric_srcs": metric_srcs,
        **{f"program.{name}": artifact for name, artifact in _files(program).items()},
    }
    several = methods_of(ctx, attrs.model)
    providers = (several[method].exported,) if several else ctx.providers(attrs.model)
    exported = next((each for each in providers if isinstance(each, ExportedModel)), None)
    lowering = program.methods[method].lowering
    if attrs.on_device:
        tested = on_device_test(ctx, program, inputs, parity, eager.tools)
        there = None
        if exported is not None and lowering is not None:
            there = search_on_device(ctx, exported, lowering, inputs, parity, eager.tools, tested)
        return (TestAction((tested.report,), flaky=attrs.flaky, bisect=there, filters=True),)
    made = ctx.action(
        "test",
        step="pte_test",
        inputs=inputs
        | (dict(sample_inputs(data)) if data is not None and not selected else {})
        | runtime
        | libraries
        | (kernel_inputs((*(baseline.kernels if baseline else ()), *program.kernels)) if cpp or spare else {})
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
            "cpp_runtime": cpp,
            **({"gpu": _gpu(attrs, program), "libraries": library_params(attrs.libraries)} if cpp or spare else {}),
            **({"installed": runtime_package.module} if runtime_package else {}),
        },
        unkeyed={
            "timeout": seconds(attrs),
            **({"place": archive_place(ctx), "library_places": library_places(ctx)} if cpp or spare else {}),
        },
        tools=("flatbuffers", *eager.tools, *((runtime_package.distribution,) if runtime_package else ())),
        python=("srcs", "metric_srcs"),
        preload=("torch",),
        resources=_resources(attrs, program),
        description=f"{attrs.program} against {attrs.model}",
    )
    bisect = None
    if exported is not None and lowering is not None:
        params = {**parity, "cpp_runtime": cpp}
        bisect = search_here(ctx, exported, lowering, inputs, params, eager.tools)
    return (TestAction((made["report"],), flaky=attrs.flaky, bisect=bisect, filters=True),)


def _method(ctx: Context[PteTestAttrs], program: Program) -> str:
    """Return the name of the tested method."""
    wanted, known = ctx.attrs.method, list(program.methods)
    if wanted is None and len(known) == 1:
        return known[0]
    if (wanted or "forward") in known:
        return wanted or "forward"
    if wanted is None:
        raise ctx.error(
            "program", f"'{ctx.attrs.program}' has several methods; expected 'method', one of: {', '.join(known)}"
        )
    hint = did_you_mean(wanted, known) or f"; expected {', '.join(known)}"
    raise ctx.error("method", f"'{ctx.attrs.program}' has no method '{wanted}'{hint}")


def _installed_runtime(attrs: PteTestAttrs, arch: str | None) -> InstalledRuntime | None:
    """Return the package whose C++ runtime runs the program; None if ExecuTorch's Python runtime or an archive does."""
    if attrs.runtime is not None:
        return None
    found = installed_runtime(arch)
    if attrs.cpp_runtime or attrs.gpus:
        return found
    elsewhere = arch not in (None, os.uname().machine) and attrs.max_memory is None
    return found if elsewhere and found.is_there() else None


def _spare_runtime(arch: str | None) -> InstalledRuntime | None:
    """Return the installed package whose C++ runtime runs a program with kernels that ExecuTorch's Python runtime
    lacks; None if there is none."""
    found = installed_runtime(arch)
    return found if arch in (None, os.uname().machine) and found.has_files() else None


def _gpu(attrs: PteTestAttrs, program: Program) -> GpuNeeds:
    """Return a program's GPU requirements."""
    device = program.device
    if device is None:
        return {"count": attrs.gpus, "index": 0, "capabilities": []}
    return {"count": attrs.gpus, "index": device.cuda_index, "capabilities": list(device.compute_capabilities)}


def _resources(attrs: PteTestAttrs, program: Program) -> Resources:
    capabilities = program.device.compute_capabilities if program.device and attrs.gpus else ()
    return replace(resources(attrs), compute_capability=min(capabilities, key=float, default=""))


def _check_names(
    ctx: Context[PteTestAttrs], what: str, path: tuple[str | int, ...], given: Iterable[str], known: Sequence[str]
) -> None:
    for name in given:
        if name not in known:
            hint = did_you_mean(name, known) or (f"; expected {', '.join(known)}" if known else "")
            raise ctx.error((*path, name), f"the model has no {what} '{name}'{hint}")


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
            _check_names(ctx, "output", (*where, "output"), [metric.output], outputs)
        return {**limits, "top": metric.top, "output": metric.output}
    assert metric.entry is not None
    return {**limits, "entry": _function(ctx, srcs, (*where, "entry"), metric.entry)}


def _accuracy(
    ctx: Context[PteTestAttrs], data: Dataset | None, srcs: tuple[Artifact, ...], outputs: Sequence[str] | None
) -> list[AccuracyParams]:
    def check_name(where: tuple[str | int, ...], name: str) -> None:
        _check_names(ctx, "output", where, [name], outputs or ())

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
