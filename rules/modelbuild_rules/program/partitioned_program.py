"""Compile a program's partitions, and link them, once the partition step has written its plan."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from modelbuild.api import Artifact, Context, DerivedArtifact, ErrorText, Expander, Output, Resources
from modelbuild_rules.backends.backend import DeviceFacts, Sidecar
from modelbuild_rules.model import source_places
from modelbuild_rules.providers import ExportedModel, StackEntry

if TYPE_CHECKING:
    from modelbuild_rules.program.documents import LoweredBackend, OfferedBackend, PlannedPartition, TargetDevice

PRELOAD = ("torch", "executorch.exir")
"""Modules that workers import before a partition or compile step."""


def offered(entry: StackEntry, facts: DeviceFacts) -> OfferedBackend:
    """Return a backend's entry for the partition step."""
    backend = entry.backend
    attributes = backend.partition_attributes(entry.attributes, facts)
    return {"kind": backend.name, "partitioning": backend.partitioning, "attributes": attributes}


@dataclass(frozen=True)
class DeviceBackend:
    """A backend of a stack, for a program's device.

    entry          its entry in the stack
    facts          the device's facts
    prerequisites  the inputs of its compile step besides the partition
    """

    entry: StackEntry
    facts: DeviceFacts
    prerequisites: Mapping[str, Artifact]

    def lowered(self) -> LoweredBackend:
        """Return the entry for a step that repeats the partition and compile steps."""
        backend = self.entry.backend
        compiled = backend.compile_attributes(self.entry.attributes, self.facts)
        return {**offered(self.entry, self.facts), "compiling": backend.compiling, "compiled": compiled}

    def compile(
        self, ctx: Expander, planned: PlannedPartition, partition: Artifact, error_text: ErrorText
    ) -> DerivedArtifact:
        """Declare the action that compiles a partition; return its output."""
        backend, attributes = self.entry.backend, self.entry.attributes
        operators = f"{planned['nodes']} operator{'s' * (planned['nodes'] != 1)}"
        return ctx.action(
            "compile",
            name=f"compile:{planned['id']}",
            step=backend.compiling,
            inputs={"partition": partition, **self.prerequisites},
            outputs=[Output("compiled", "compiled", "tree")],
            params={"attributes": backend.compile_attributes(attributes, self.facts)},
            tools=backend.compile_tools(attributes),
            preload=PRELOAD,
            resources=self._resources(planned),
            description=f"compile {planned['id']} for {backend.name} ({operators})",
            error_text=error_text,
        )["compiled"]

    def _resources(self, planned: PlannedPartition) -> Resources:
        gpus = self.entry.backend.gpus(self.entry.attributes)
        capability = min(self.facts["compute_capabilities"], key=float) if gpus else ""
        return Resources(memory=(1 << 30) + 4 * planned["bytes"], gpu=gpus, compute_capability=capability)


@dataclass(frozen=True)
class PartitionedMethod:
    """A method whose partitions are neither compiled nor linked.

    name      its name; '' for the only method of a program with an attribute `model`
    model     the model that was lowered
    lowered   the outputs of the partition step
    backends  those of its stack, in the stack's order
    module    the number of its module; methods with the same number share their state
    """

    name: str
    model: ExportedModel
    lowered: Mapping[str, DerivedArtifact]
    backends: tuple[DeviceBackend, ...]
    module: int = 0

    def id(self, partition: str) -> str:
        """Return a partition's id in the program."""
        return f"{self.name}.{partition}" if self.name else partition


@dataclass(frozen=True)
class PartitionedProgram:
    """A program whose partitions are neither compiled nor linked.

    name      the name of the .pte
    methods   its methods, in the order of their names
    device    the device's facts
    external  true if weights are outside the .pte
    sidecars  additional outputs
    """

    name: str
    methods: tuple[PartitionedMethod, ...]
    device: DeviceFacts
    external: bool
    sidecars: tuple[Sidecar, ...]

    @property
    def extra(self) -> tuple[str, ...]:
        """Return the names of outputs besides the .pte and its delegation."""
        return (*(("ptd",) * self.external), *(each.name for each in self.sidecars))

    @property
    def outputs(self) -> list[Output]:
        """Return the outputs of linking."""
        more = [Output(each, f"{self.name}.{each}") for each in self.extra]
        signature = [Output("signature", "signature.json")] if self._named else []
        return [Output("pte", f"{self.name}.pte"), *more, Output("delegation", "delegation.json"), *signature]

    @property
    def _named(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.methods if each.name)

    @property
    def _shares(self) -> bool:
        return any("state" in each.lowered for each in self.methods)

    @property
    def _modules(self) -> dict[str, list[int]]:
        return {"modules": [each.module for each in self.methods]} if self._shares else {}

    def plan(self, ctx: Context[Any]) -> DerivedArtifact:
        """Return the file with the plans of all methods."""
        plans = [each.lowered["plan"] for each in self.methods]
        if not self._named:
            return plans[0]
        return ctx.action(
            "plan",
            step="plan",
            inputs={
                "plans": plans,
                **({"states": [each.lowered["state"] for each in self.methods]} if self._shares else {}),
            },
            outputs=[Output("plan", "plan.json")],
            params={"methods": list(self._named), **self._modules},
            description=f"plan {self.name}.pte",
        )["plan"]

    def compile_and_link(self, ctx: Expander, plan: bytes) -> Mapping[str, Artifact]:
        """Declare a compile action for each partition of plan.json, and the action that links the program; return its
        outputs."""
        found = json.loads(plan)
        planned: Mapping[str, list[PlannedPartition]] = found if self._named else {"": found}
        partitions = [(method, each) for method in self.methods for each in planned[method.name]]
        return ctx.action(
            "emit",
            step="emit",
            inputs={
                "residual": [each.lowered["residual"] for each in self.methods],
                "report": [each.lowered["report"] for each in self.methods],
                "signature": [each.model.signature for each in self.methods],
                "parts": [self._compile(ctx, method, each) for method, each in partitions],
            },
            outputs=self.outputs,
            params={
                "partitions": [method.id(each["id"]) for method, each in partitions],
                "sidecars": {each.name: each.merging for each in self.sidecars},
                "device": self._target(),
                **({"methods": list(self._named)} if self._named else {}),
                **self._modules,
            },
            plugins=[each.merging for each in self.sidecars],
            tools=("executorch", "flatbuffers"),
            description=f"emit {self.name}.pte",
        )

    def _target(self) -> TargetDevice | None:
        if not self.device:
            return None
        capabilities = list(self.device["compute_capabilities"])
        return {"arch": self.device["arch"], "os": self.device["os"], "compute_capabilities": capabilities}

    def _compile(self, ctx: Expander, method: PartitionedMethod, planned: PlannedPartition) -> DerivedArtifact:
        folder = method.lowered["partitions"]
        partition = DerivedArtifact(folder.action, folder.output, planned["id"])
        error_text = source_places.of_partition(method.model, method.lowered["report"], planned["id"])
        named: PlannedPartition = {**planned, "id": method.id(planned["id"])}
        return method.backends[planned["entry"]].compile(ctx, named, partition, error_text)
