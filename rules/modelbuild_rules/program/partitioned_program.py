"""Compile a program's partitions and link them, after the partition step has written its plan."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import TYPE_CHECKING

from modelbuild.api import Artifact, DerivedArtifact, ErrorText, Expander, Output, Resources
from modelbuild.errors import ModelbuildError
from modelbuild_rules.backend_api.backend import DeviceFacts, Part, Sidecar
from modelbuild_rules.backend_api.preload import PRELOAD
from modelbuild_rules.method_names import qualified
from modelbuild_rules.model import source_places
from modelbuild_rules.providers import ExportedMethod, StackEntry

if TYPE_CHECKING:
    from modelbuild_rules.backend_api.documents import OfferedBackend
    from modelbuild_rules.program.documents import LoweredBackend, MethodState, PlannedPartition, TargetDevice

_STORING = ("executorch", "numpy", "torch")
"""Distributions that decide the bytes of stored weights, with what the worker of the other steps has imported."""


def offered(entry: StackEntry, facts: DeviceFacts) -> OfferedBackend:
    """Return a backend's entry for the partition step."""
    backend = entry.backend
    attributes = backend.partition_attributes(entry.attributes, backend.facts(facts))
    return {"kind": backend.name, "partitioning": backend.partitioning, "attributes": attributes}


@dataclass(frozen=True)
class DeviceBackend:
    """A backend of a stack, for a program's device.

    entry          its entry in the stack
    facts          the facts of the device that the backend gets
    prerequisites  the inputs of its compile step in addition to the partition
    """

    entry: StackEntry
    facts: DeviceFacts
    prerequisites: Mapping[str, Artifact]

    def lowered(self) -> LoweredBackend:
        """Return the entry for a step that repeats the partition and compile steps."""
        backend = self.entry.backend
        compiled = backend.compile_attributes(self.entry.attributes, self.facts)
        return {
            **offered(self.entry, self.facts),
            "compiling": backend.compiling,
            "storing": backend.storing,
            "compiled": compiled,
        }

    def compile(
        self, ctx: Expander, planned: PlannedPartition, partition: DerivedArtifact, error_text: ErrorText
    ) -> DerivedArtifact:
        """Declare the actions that compile a partition, and the action that stores its weights if it is separate;
        return the compiled partition."""
        backend = self.entry.backend
        given = (
            {"program": replace(partition, subpath=f"{partition.subpath}/program")}
            if backend.storing
            else {"partition": partition}
        )
        part = Part(
            planned["id"],
            planned["nodes"],
            planned["bytes"],
            {**given, **self.prerequisites},
            self.entry.attributes,
            self.facts,
            error_text,
        )
        compiled = backend.compile(ctx, part)
        if not backend.storing:
            return compiled
        return ctx.action(
            "store",
            name=f"store:{planned['id']}",
            step=backend.storing,
            inputs={"code": compiled, "partition": partition},
            outputs=[Output("compiled", "compiled", "tree")],
            tools=(*_STORING, *backend.store_tools),
            preload=PRELOAD,
            resources=Resources(memory=(1 << 29) + 2 * planned["bytes"]),
            description=f"store the weights of {planned['id']} for {backend.name}",
        )["compiled"]


@dataclass(frozen=True)
class PartitionedMethod:
    """A method whose partitions are neither compiled nor linked.

    name      its name
    model     the model that was lowered
    lowered   the outputs of the partition step
    backends  the backends of its stack, in order
    module    the number of its module; methods with the same number share their state
    """

    name: str
    model: ExportedMethod
    lowered: Mapping[str, DerivedArtifact]
    backends: tuple[DeviceBackend, ...]
    module: int = 0

    def compile(self, ctx: Expander, planned: PlannedPartition) -> DerivedArtifact:
        """Declare the action that compiles a partition; return its output."""
        folder = self.lowered["partitions"]
        partition = DerivedArtifact(folder.action, folder.output, planned["id"])
        error_text = source_places.of_partition(self.model, self.lowered["report"], planned["id"])
        own: PlannedPartition = {**planned, "id": qualified(self.name, planned["id"])}
        return self.backends[planned["entry"]].compile(ctx, own, partition, error_text)


@dataclass(frozen=True)
class PartitionedProgram:
    """A program whose partitions are neither compiled nor linked.

    name      the name of the .pte
    methods   its methods, in the order of their names
    device    the device's facts
    external  true if weights are outside the .pte
    sidecars  additional outputs
    refusal   returns the error for methods that cannot share their state
    """

    name: str
    methods: tuple[PartitionedMethod, ...]
    device: DeviceFacts
    external: bool
    sidecars: tuple[Sidecar, ...]
    refusal: Callable[[str], ModelbuildError]

    @property
    def extra(self) -> tuple[str, ...]:
        """Return the names of outputs in addition to the .pte, its delegation and its signature."""
        return (*(("ptd",) * self.external), *(each.name for each in self.sidecars))

    @property
    def outputs(self) -> list[Output]:
        """Return the outputs of linking."""
        more = [Output(each, f"{self.name}.{each}") for each in self.extra]
        described = [Output(each, f"{each}.json") for each in ("delegation", "signature")]
        return [Output("pte", f"{self.name}.pte"), *more, *described]

    @property
    def plans(self) -> list[DerivedArtifact]:
        """The input files of `compile_and_link`: the plan of each method, and its state if methods share it."""
        names = ("plan", "state")
        return [each.lowered[name] for name in names for each in self.methods if name in each.lowered]

    def compile_and_link(self, ctx: Expander, *files: bytes) -> Mapping[str, Artifact]:
        """Declare a compile action for each partition of the plans, and the action that links the program; return its
        outputs."""
        read = [json.loads(each) for each in files]
        plans: list[list[PlannedPartition]] = read[: len(self.methods)]
        modules = {each.name: each.module for each in self.methods}
        shares = len(files) > len(self.methods)
        if shares and (why := conflict(list(modules), list(modules.values()), read[len(self.methods) :])):
            raise self.refusal(why)
        partitions = [(method, each) for method, plan in zip(self.methods, plans, strict=True) for each in plan]
        return ctx.action(
            "emit",
            step="emit",
            inputs={
                "residual": [each.lowered["residual"] for each in self.methods],
                "report": [each.lowered["report"] for each in self.methods],
                "signature": [each.model.signature for each in self.methods],
                "parts": [method.compile(ctx, each) for method, each in partitions],
            },
            outputs=self.outputs,
            params={
                "partitions": {
                    method.name: [each["id"] for each in plan] for method, plan in zip(self.methods, plans, strict=True)
                },
                "sidecars": {each.name: each.merging for each in self.sidecars},
                "device": self._target(),
                **({"modules": modules} if shares else {}),
            },
            plugins=[each.merging for each in self.sidecars],
            tools=("flatbuffers", "numpy"),
            description=f"emit {self.name}.pte",
        )

    def _target(self) -> TargetDevice | None:
        if not self.device:
            return None
        capabilities = list(self.device["compute_capabilities"])
        return {"arch": self.device["arch"], "os": self.device["os"], "compute_capabilities": capabilities}


def conflict(methods: Sequence[str], modules: Sequence[int], states: Sequence[MethodState]) -> str:
    """Return why two methods of a module cannot share a buffer; '' if all can."""
    for (name, module, own), (other, its_module, its) in permutations(zip(methods, modules, states, strict=True), 2):
        if module != its_module:
            continue
        if inside := set(own["inside"]).intersection((*its["changed"], *its["read"])):
            return (
                f"method '{name}' changes the buffer '{min(inside)}' inside a partition, whose state ExecuTorch keeps"
                f" for this partition alone, and method '{other}' uses it, too; expected a stack that runs the change"
                " outside of partitions, or the state as inputs and outputs"
            )
        for buffer, memory in own["common"].items():
            if (elsewhere := its["common"].get(buffer)) != memory and buffer in its["changed"]:
                where = f"in {elsewhere}" if elsewhere else "outside of such a partition"
                return (
                    f"method '{name}' changes the buffer '{buffer}' in {memory}, inside a partition, and method"
                    f" '{other}' uses it {where}; expected both in partitions of one backend and device, or the state"
                    " as inputs and outputs"
                )
        if read := set(own["changed"]).intersection(its["read"]):
            return (
                f"method '{name}' changes the buffer '{min(read)}', and method '{other}' only reads it, as a constant;"
                " expected methods that all change it, or that pass it as inputs and outputs"
            )
    return ""
