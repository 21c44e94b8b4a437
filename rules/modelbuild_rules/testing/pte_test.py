"""pte_test: compares a built program with its model in eager PyTorch on declared inputs, and checks limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field

from modelbuild.api import Context, Dep, LabelOf, Provider, Sources, TestAction, rule
from modelbuild.errors import did_you_mean
from modelbuild_rules.bundle.runtime_attributes import Runtime
from modelbuild_rules.case_names import is_selected
from modelbuild_rules.model.inputs import MethodName
from modelbuild_rules.providers import DeviceTarget, Model, Program
from modelbuild_rules.testing.accuracy import Accuracy
from modelbuild_rules.testing.attributes import Latency, Limits, TestAttrs
from modelbuild_rules.testing.bisection import search_on_device
from modelbuild_rules.testing.cases import TestCase
from modelbuild_rules.testing.comparison import Metric, Tolerance, comparison
from modelbuild_rules.testing.on_device import check_on_device, on_device_test
from modelbuild_rules.testing.on_this_machine import test_here
from modelbuild_rules.testing.tested_methods import tested_methods


class PteTestAttrs(TestAttrs):
    """A test that compares a program with its model."""

    renamed: ClassVar[Mapping[str, str]] = {
        "models": "model",
        "inputs": "cases",
        "outputs": "tolerance.outputs",
        "metric_srcs": "srcs",
        "dataset": "accuracy.dataset",
        "max_bytes": "limits.bytes",
        "max_memory": "limits.memory",
        "max_delegates": "limits.partitions",
        "min_delegated_fraction": "limits.delegated",
        "max_latency": "latency.max",
        "max_latency_p95": "latency.p95",
        "max_latency_ratio": "latency.ratio",
        "latency_runs": "latency.runs",
        "baseline": "latency.baseline",
        "libraries": "runtime.libraries",
        "backends": "expect_backends",
    }

    program: Annotated[Dep, LabelOf(Program)]
    """The `pte_program`."""

    model: Annotated[Dep, LabelOf(Model)] | dict[MethodName, Annotated[Dep, LabelOf(Model)]]
    """The model to compare with, in eager PyTorch, or a table of models by method. Tested `methods` of a model share
    their state."""

    method: str | None = None
    """The program's method; by default the only one, or `forward`. `steps` of a case name others."""

    device: Annotated[Dep, LabelOf(DeviceTarget)] | None = None
    """The device. `--device` overrides it."""

    on_device: bool = False
    """Run the program on the device, by `runners` of the `device_target`, or `--runner`. Without a reachable device,
    the test is not run."""

    cases: tuple[TestCase, ...] = Field(min_length=1)
    """The cases."""

    tolerance: Tolerance = Tolerance()
    """Allowed differences of outputs."""

    metrics: tuple[Metric, ...] = ()
    """Metrics to compute from each case's outputs."""

    accuracy: Accuracy | None = None
    """Metrics over the samples of a dataset."""

    srcs: Sources = ()
    """Additional Python files: of other packages, or imported without an import statement."""

    limits: Limits = Limits()
    """Limits of size, memory and delegation."""

    latency: Latency = Latency()
    """Limits of the latency."""

    expect_backends: dict[str, str] = Field(default_factory=dict)
    """The backend that must take all nodes, by submodule."""

    runtime: Runtime = Runtime()
    """The C++ runtime."""


EXAMPLE = """
[[pte_test]]
name = "net_test"
program = ":net_program"
model = ":net"
cases = [{ name = "random", generator = { seed = 0, count = 3 } }]
"""


@rule(attrs=PteTestAttrs, example=EXAMPLE, toolchain_from=("program",))
def pte_test(ctx: Context[PteTestAttrs]) -> tuple[Provider, ...]:
    attrs = ctx.attrs
    program = ctx.provider(attrs.program, Program)
    tested = tested_methods(ctx, program, attrs.cases)
    known = [name for case in attrs.cases for name in case.names()]
    if not any(is_selected(name, ctx.test_filter) for name in known):
        unmatched = f"no case matches '{ctx.test_filter}'{did_you_mean(ctx.test_filter, known)}"
        return (TestAction((), filters=True, unmatched=unmatched),)
    check_on_device(ctx, program)
    compared = comparison(ctx, program, tested)
    if attrs.on_device:
        there = on_device_test(ctx, program, compared, tested)
        finding = search_on_device(ctx, tested, compared.inputs, compared.params, there)
        return (TestAction((there.report,), flaky=attrs.flaky, bisect=finding, filters=True),)
    report, finding = test_here(ctx, program, compared, tested)
    return (TestAction((report,), flaky=attrs.flaky, bisect=finding, filters=True),)
