"""Compile a program's partitions, and link them, once the partition step has written its plan."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from modelbuild.api import Artifact, DerivedArtifact, ErrorText, Expander, Output, Resources
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
class PartitionedProgram:
    """A program whose partitions are neither compiled nor linked.

    name      the name of the .pte
    model     the model that was lowered
    backends  those of the stack, in its order
    device    the device's facts
    lowered   the outputs of the partition step
    external  true if weights are outside the .pte
    sidecars  additional outputs
    """

    name: str
    model: ExportedModel
    backends: tuple[DeviceBackend, ...]
    device: DeviceFacts
    lowered: Mapping[str, DerivedArtifact]
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
        return [Output("pte", f"{self.name}.pte"), *more, Output("delegation", "delegation.json")]

    def compile_and_link(self, ctx: Expander, plan: bytes) -> Mapping[str, Artifact]:
        """Declare a compile action for each partition of plan.json, and the action that links the program; return its
        outputs."""
        partitions: list[PlannedPartition] = json.loads(plan)
        parts = [self._compile(ctx, each) for each in partitions]
        return ctx.action(
            "emit",
            step="emit",
            inputs={
                "residual": self.lowered["residual"],
                "report": self.lowered["report"],
                "signature": self.model.signature,
                "parts": parts,
            },
            outputs=self.outputs,
            params={
                "partitions": [each["id"] for each in partitions],
                "sidecars": {each.name: each.merging for each in self.sidecars},
                "device": self._target(),
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

    def _compile(self, ctx: Expander, planned: PlannedPartition) -> DerivedArtifact:
        folder = self.lowered["partitions"]
        partition = DerivedArtifact(folder.action, folder.output, planned["id"])
        error_text = source_places.of_partition(self.model, self.lowered["report"], planned["id"])
        return self.backends[planned["entry"]].compile(ctx, planned, partition, error_text)
