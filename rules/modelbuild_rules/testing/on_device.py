"""The actions of a pte_test whose program runs on its device: a bundle, the inputs of its cases, and the test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from modelbuild.api import Context, DerivedArtifact, DeviceJob, Label, Output
from modelbuild.errors import did_you_mean
from modelbuild_rules.bundle.runtime_bundle import bundle_action, machine_of
from modelbuild_rules.providers import DeviceTarget, Program
from modelbuild_rules.testing.attributes import budgets, resources, seconds
from modelbuild_rules.testing.comparison import Comparison
from modelbuild_rules.testing.tested_methods import TestedMethods, compared_with

_LATENCIES = ("max", "p95")
# Attributes about a program that runs on this machine, and what to use instead.
_ELSEWHERE = {
    "gpus": "none: the device has its own",
    "latency.ratio": "latency.max",
    "latency.baseline": "none",
    "latency.estimated": "none: the latency is measured",
    "limits.memory": "none",
    "accuracy": "none",
}


@dataclass(frozen=True, slots=True)
class OnDevice:
    """The outputs of the actions of a test on a device."""

    report: DerivedArtifact
    bundle: DerivedArtifact
    cases: DerivedArtifact


def check_on_device(ctx: Context[Any], program: Program) -> None:
    """Raise LoadingError for attributes that fit only a test on a device, or only a test on this machine."""
    attrs = ctx.attrs
    if attrs.latency.estimated and not attrs.latency.max:
        raise ctx.error(("latency", "estimated"), "there is no limit to compare an estimate with; expected latency.max")
    if attrs.latency.estimated and ctx.device_label is None:
        raise ctx.error(("latency", "estimated"), "latency.max is by device; expected 'device', or --device")
    if not attrs.on_device:
        for name in _LATENCIES[attrs.latency.estimated :]:
            if getattr(attrs.latency, name):
                instead = " or 'latency.estimated = true'" if name == "max" else ""
                message = f"latency.{name} is measured on a device; expected 'on_device = true'{instead} as well"
                raise ctx.error(("latency", name), message)
        return
    for name, expected in _ELSEWHERE.items():
        if attrgetter(name)(attrs):
            message = f"{name} is for tests on this machine, and not with on_device; expected {expected}"
            raise ctx.error(tuple(name.split(".")), message)
    device = ctx.device(DeviceTarget)
    if program.device is not None and machine_of(device) != machine_of(program.device):
        found, expected = machine_of(program.device), machine_of(device)
        raise ctx.error("device", f"'{attrs.program}' is compiled for {found}; expected {expected}, the test's device")
    for name in _LATENCIES:
        device_limit(ctx, name)


def device_limit(ctx: Context[Any], name: str) -> float | None:
    """Return the limit for the test's device in milliseconds; None if there are no limits. A device must have a limit
    if another device has."""
    limits: Mapping[str, float] = getattr(ctx.attrs.latency, name)
    by_label = {str(Label.parse(text, ctx.label.package)): limit for text, limit in limits.items()}
    label = str(ctx.device_label)
    if by_label and label not in by_label:
        raise ctx.error(
            ("latency", name), f"no limit for {label}; expected one for each device{did_you_mean(label, by_label)}"
        )
    return by_label.get(label)


def _latencies(ctx: Context[Any]) -> dict[str, float]:
    return {f"latency.{name}": limit for name in _LATENCIES if (limit := device_limit(ctx, name)) is not None}


def on_device_test(ctx: Context[Any], program: Program, compared: Comparison, tested: TestedMethods) -> OnDevice:
    """Declare the actions."""
    attrs, device = ctx.attrs, ctx.device(DeviceTarget)
    inputs, params = compared.inputs, compared.params
    programs = {Label.parse(attrs.program, ctx.label.package).name: program}
    bundle = bundle_action(ctx, programs, device, "bundle", "bundle")
    given = {name: each for name, each in inputs.items() if name.startswith("case.")}
    pte = {name: each for name, each in inputs.items() if name in ("program.pte", "program.ptd", "program.signature")}
    # Inputs that are outputs of earlier calls come from eager PyTorch.
    fed = any(step["feed"] for case in params["cases"] for step in case["steps"])
    models = {"methods": params["methods"]} if fed else {}
    cases = ctx.action(
        "cases",
        step="device_cases",
        inputs={**given, **pte, **(tested.eager_inputs() if fed else {})},
        outputs=[Output("cases", "cases", "tree")],
        params={
            "cases": params["cases"],
            "latency_runs": 0 if compared.selected else attrs.latency.runs,
            **({"filter": params["filter"]} if compared.selected else {}),
            **models,
        },
        tools=("flatbuffers", *tested.tools()),
        python=tested.python() if fed else (),
        data=tested.data() if fed else (),
        preload=("torch",),
        description=f"inputs of {ctx.label}",
    )["cases"]
    assert ctx.device_label is not None
    report = ctx.action(
        "test",
        step="device_test",
        inputs={**{name: each for name, each in inputs.items() if name not in given}, "cases": cases, "bundle": bundle},
        outputs=[Output("report", "report.json")],
        params={
            **{name: value for name, value in params.items() if name != "cases"},
            "budgets": {} if compared.selected else budgets(attrs.limits, attrs.latency, on_device=True),
            "latencies": {} if compared.selected else _latencies(ctx),
            "backends": {} if compared.selected else attrs.expect_backends,
        },
        unkeyed={"timeout": seconds(attrs)},
        tools=("flatbuffers", *tested.tools()),
        python=(*tested.python(), "metric_srcs"),
        data=tested.data(),
        preload=("torch",),
        device=DeviceJob(str(ctx.device_label), device.spec, ("bundle", "cases"), "cases", seconds(attrs)),
        resources=resources(attrs),
        description=f"{attrs.program} on {ctx.device_label} against {compared_with(attrs)}",
    )["report"]
    return OnDevice(report, bundle, cases)
