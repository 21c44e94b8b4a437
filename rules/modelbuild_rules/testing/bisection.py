"""The actions that search for the first wrong node after a test failed: on this machine, or with its device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from modelbuild.api import Artifact, Context, DerivedArtifact, DeviceJob, Output, Resources
from modelbuild_rules.backend_api.preload import PRELOAD
from modelbuild_rules.installed_runtime import InstalledRuntime
from modelbuild_rules.providers import DeviceTarget, ExportedMethod, Lowering
from modelbuild_rules.testing.attributes import seconds
from modelbuild_rules.testing.on_device import OnDevice
from modelbuild_rules.testing.tested_methods import TestedMethods

_STEPS = "modelbuild_rules.testing.steps.bisect"
_RESOURCES = Resources(memory=4 << 30)


def search_here(
    ctx: Context[Any],
    tested: TestedMethods,
    inputs: Mapping[str, Artifact | tuple[Artifact, ...]],
    params: Mapping[str, Any],
    unkeyed: Mapping[str, Any],
    runtime: InstalledRuntime | None,
) -> DerivedArtifact | None:
    """Declare the action that searches on this machine; return its finding, or None if a method's lowering is unknown.
    parity/runners.py takes `params` and `unkeyed` too."""
    methods = _Methods.of(tested)
    if methods is None:
        return None
    return ctx.action(
        "bisect",
        step="first_wrong_node",
        inputs={**inputs, **methods.references(), **methods.lowered()},
        outputs=[Output("finding", "finding.json")],
        params={**params, **methods.params()},
        unkeyed=unkeyed,
        plugins=methods.plugins(),
        tools=(*methods.tools(), *tested.tools(), *(runtime.tools if runtime else ())),
        python=(*tested.python(), "metric_srcs"),
        data=tested.data(),
        preload=PRELOAD,
        resources=_RESOURCES,
        description=f"find the first wrong node of {ctx.attrs.program}",
    )["finding"]


def search_on_device(
    ctx: Context[Any],
    tested: TestedMethods,
    inputs: Mapping[str, Artifact | tuple[Artifact, ...]],
    params: Mapping[str, Any],
    there: OnDevice,
) -> DerivedArtifact | None:
    """Declare the actions that search on the test's device; return the finding, or None if a method's lowering is
    unknown.

    The device runs the program on the case that failed in the report, with all tensors between partitions as outputs.
    It then runs the wrong partition with its nodes' results as outputs.
    """
    methods = _Methods.of(tested)
    if methods is None:
        return None
    needed = {name: each for name, each in inputs.items() if not name.startswith("case.")}
    lowered: dict[str, Any] = {"inputs": {**needed, **methods.lowered()}, "plugins": methods.plugins()}
    shared: dict[str, Any] = {
        "tools": (*methods.tools(), *tested.tools()),
        "python": (*tested.python(), "metric_srcs"),
        "data": tested.data(),
        "preload": PRELOAD,
        "resources": _RESOURCES,
    }
    params = {**{name: value for name, value in params.items() if name != "cases"}, **methods.params()}
    taps = ctx.action(
        "taps",
        step=f"{_STEPS}.tapped_program",
        outputs=[Output("taps", "taps", "tree")],
        params={name: params[name] for name in ("methods", "backends", "modules")},
        description=f"give {ctx.attrs.program} all tensors between partitions as outputs",
        **lowered,
        **shared,
    )["taps"]
    data = {name: each for name, each in needed.items() if name == "program.ptd"}
    plan = ctx.action(
        "plan-taps",
        step=f"{_STEPS}.tap_commands",
        inputs={"report": there.report, "cases": there.cases, "taps": taps, **data},
        outputs=[Output("plan", "plan", "tree")],
        description=f"choose the case of {ctx.label} to search",
    )["plan"]
    wrong = ctx.action(
        "find-partition",
        step=f"{_STEPS}.wrong_partition",
        inputs={
            **lowered["inputs"],
            **methods.references(),
            "bundle": there.bundle,
            "cases": there.cases,
            "taps": taps,
            "plan": plan,
        },
        outputs=[Output("wrong", "wrong", "tree")],
        params=params,
        plugins=lowered["plugins"],
        device=_job(ctx, ("bundle", "cases", "taps", "plan", *data), "plan"),
        description=f"find the first wrong partition of {ctx.attrs.program} on {ctx.device_label}",
        **shared,
    )["wrong"]
    return ctx.action(
        "bisect",
        step=f"{_STEPS}.wrong_node_on_device",
        inputs={"bundle": there.bundle, "wrong": wrong},
        outputs=[Output("finding", "finding.json")],
        tools=("numpy",),
        device=_job(ctx, ("bundle", "wrong"), "wrong"),
        description=f"find the first wrong node of {ctx.attrs.program} on {ctx.device_label}",
    )["finding"]


def _job(ctx: Context[Any], inputs: tuple[str, ...], plan: str) -> DeviceJob:
    return DeviceJob(str(ctx.device_label), ctx.device(DeviceTarget).spec, inputs, plan, seconds(ctx.attrs))


@dataclass(frozen=True)
class _Methods:
    """The tested methods: the exported program of each model, and the lowering of each program's method."""

    exported: Mapping[str, ExportedMethod]
    lowerings: Mapping[str, Lowering]
    modules: Mapping[str, int]

    @classmethod
    def of(cls, tested: TestedMethods) -> _Methods | None:
        exported = {name: each.exported for name, each in tested.called.items()}
        lowerings = {name: each.lowering for name, each in tested.called.items() if each.lowering is not None}
        if len(lowerings) < len(tested.called):
            return None
        return cls(exported, lowerings, {name: each.placed for name, each in tested.called.items()})

    def references(self) -> dict[str, Artifact]:
        return {
            f"reference.{method}.{name}": artifact
            for method, each in self.exported.items()
            for name, artifact in (("program", each.program), ("weights", each.weights), ("debug", each.debug))
        }

    def lowered(self) -> dict[str, Artifact]:
        """Return the lowered models, and the inputs of their compile steps in addition to partitions."""
        found: dict[str, Artifact] = {}
        for method, each in self.lowerings.items():
            found[f"lowered.{method}.program"] = each.model.program
            found[f"lowered.{method}.weights"] = each.model.weights
            for number, needed in enumerate(each.prerequisites):
                found |= {f"backend.{method}.{number}.{name}": artifact for name, artifact in needed.items()}
        return found

    def params(self) -> dict[str, Any]:
        backends = {method: list(each.backends) for method, each in self.lowerings.items()}
        return {"backends": backends, "modules": dict(self.modules)}

    def plugins(self) -> list[str]:
        backends = [backend for each in self.lowerings.values() for backend in each.backends]
        return sorted({each[part] for each in backends for part in ("partitioning", "compiling", "storing")} - {""})

    def tools(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(tool for each in self.lowerings.values() for tool in each.tools))
