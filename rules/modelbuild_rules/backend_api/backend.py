"""Declarations of backends.

A backend is an extension of `backend_stack`, from any rule package. Its declaration (a `Backend`, or an instance of a
subclass that derives more from attributes and device) names up to two step modules: one that partitions
(`modelbuild_rules.backend_api.steps.partitioning.Partitioning`), and one that compiles a partition.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict, cast

from pydantic import AfterValidator

from modelbuild.api import Artifact, Attrs, DerivedArtifact, ErrorText, Expander, Extension, Output, Resources
from modelbuild_rules.backend_api.decides import check_decides, deciding
from modelbuild_rules.backend_api.preload import PRELOAD
from modelbuild_rules.backend_api.prerequisite import Prerequisite

_OPERATOR = re.compile(r"[A-Za-z_]\w*\.\w+\.\w+\Z")


def _operator(text: str) -> str:
    if not _OPERATOR.match(text):
        raise ValueError(f"'{text}' is not an operator; expected namespace.name.overload, as in aten.add.Tensor")
    return text


def as_set(values: tuple[str, ...]) -> tuple[str, ...]:
    """Return the values sorted, each once, so that equal sets have equal keys."""
    return tuple(sorted(set(values)))


Operator = Annotated[str, AfterValidator(_operator)]
"""An operator's name as in delegation.json: `aten.add.Tensor`, `aten.linear.default`."""

Operators = Annotated[tuple[Operator, ...], AfterValidator(as_set)]


Values = Mapping[str, Any]
"""Attributes of a backend's table, by name: JSON values."""


class DeviceFacts(TypedDict, total=False):
    """Facts of the program's DeviceTarget; empty without a device."""

    arch: str
    """As in wheels' platform tags: "x86_64", "aarch64"."""

    os: str
    """Always "linux"."""

    compute_capabilities: tuple[str, ...]
    """As "8.6"; empty for a device without CUDA."""

    gpu: int
    """Index of the device's GPU that runs the program."""

    memory: int | None
    """Bytes of GPU memory, or of main memory without a GPU; None if unknown."""

    min_glibc: str | None
    """Oldest glibc for libraries, as "2.31"; None for any."""


@dataclass(frozen=True, slots=True)
class Sidecar:
    """An additional output of a program, merged from files of compile steps.

    name     of the output, and of the file in a compile step's folder
    merging  import name of the module whose `merge(files, made)` writes it
    """

    name: str
    merging: str


@dataclass(frozen=True, slots=True)
class Library:
    """A project with files in a runtime.

    name     its name
    license  an SPDX expression
    files    patterns of paths, such as "lib/libvulkan_*.so"
    version  its name in `versions` of the runtime's manifest; '' if another project's file pins it
    purl     package URL without a version; '' if unknown
    """

    name: str
    license: str
    files: tuple[str, ...]
    version: str = ""
    purl: str = ""


@dataclass(frozen=True)
class Part:
    """A partition to compile.

    id             its name among the program's
    nodes          number of nodes that compute
    bytes          bytes of its weights
    inputs         inputs of the compile step: `partition`, or `program` with a store step, and the prerequisites
    attributes     attributes of the table by name; files are in `inputs`
    facts          the facts of the device that the backend gets
    error_text     for errors of steps that read the partition
    """

    id: str
    nodes: int
    bytes: int
    inputs: Mapping[str, Artifact]
    attributes: Values
    facts: DeviceFacts
    error_text: ErrorText

    def describe(self, backend: str) -> str:
        """Return the partition's description for messages."""
        return f"{self.id} for {backend} ({self.nodes} operator{'s' * (self.nodes != 1)})"

    def memory(self, copies: int) -> int:
        """Return the bytes of a process with so many copies of the weights."""
        return (1 << 30) + copies * self.bytes


@dataclass(frozen=True)
class Backend(Extension):
    """The declaration of a backend. Each attribute of its table states its effect: `Decides("partition")` on the nodes
    that the backend takes, `Decides("compile")` on the bytes of a compiled partition, `Decides("emit")` on the
    additional output. Attributes that name a file are inputs of the compile step.

    partitioning  import name of the module that selects its nodes; '' if it takes all remaining nodes and compiles
                  nothing
    compiling     import name of the step that compiles a partition
    storing       import name of the step that writes the weights of a compiled partition. Then the compile step gets no
                  values of weights. '' if the compile step writes them
    store_tools   distributions that decide stored weights, besides executorch, numpy and torch
    device        fields of DeviceFacts that the methods get. With a field, programs need a device
    tools         distributions that decide the bytes of a compiled partition
    runs_here     true if the C++ runtime runs its partitions in a build; else the partition step compares partitions
                  with the program in eager mode
    libraries     projects with files in its runtime, for SBOMs

    Raises TypeError for an attribute that does not state its effect.
    """

    partitioning: str = ""
    compiling: str = ""
    storing: str = ""
    store_tools: tuple[str, ...] = ()
    device: tuple[str, ...] = ()
    runs_here: bool = False
    libraries: tuple[Library, ...] = ()

    def __post_init__(self) -> None:
        check_decides(self.attrs, ("partition", "compile", "emit"), of_files="compile")

    def facts(self, device: DeviceFacts) -> DeviceFacts:
        """Return the facts of a device that the methods get."""
        facts: Any = {name: value for name, value in device.items() if name in self.device}
        return cast("DeviceFacts", facts)

    @property
    def is_catch_all(self) -> bool:
        """Return whether the backend takes every remaining node."""
        return not self.partitioning

    def contradiction(self, table: Attrs) -> tuple[str, str] | None:
        """Return the attribute to change and the problem if attributes contradict each other."""
        return None

    def problem(self, attributes: Values, facts: DeviceFacts) -> str:
        """Return the reason why programs for the device can't be built; '' if they can."""
        return ""

    def partition_attributes(self, attributes: Values, facts: DeviceFacts) -> dict[str, Any]:
        """Return the attributes of the partition step."""
        return {name: attributes[name] for name in deciding(self.attrs, "partition")}

    def compile_attributes(self, attributes: Values, facts: DeviceFacts) -> dict[str, Any]:
        """Return the attributes of the compile step without files, and the device's facts."""
        own = {name: attributes[name] for name in deciding(self.attrs, "compile") if name in attributes}
        return {**own, **facts}

    def prerequisite(self, attributes: Values, facts: DeviceFacts) -> Prerequisite | None:
        """Return the folder that the compile step reads besides the partition."""
        return None

    def compile(self, ctx: Expander, part: Part) -> DerivedArtifact:
        """Declare the actions that compile a partition; return the output of the last, a tree: `compiled`, or `code`
        for a backend with a store step. By default one action of the step `compiling`."""
        made = "code" if self.storing else "compiled"
        gpus = self.gpus(part.attributes)
        capability = min(part.facts["compute_capabilities"], key=float) if gpus else ""
        return ctx.action(
            "compile",
            name=f"compile:{part.id}",
            step=self.compiling,
            inputs=part.inputs,
            outputs=[Output(made, made, "tree")],
            params={"attributes": self.compile_attributes(part.attributes, part.facts)},
            tools=self.compile_tools(part.attributes),
            preload=PRELOAD,
            resources=Resources(memory=part.memory(1 if self.storing else 4), gpu=gpus, compute_capability=capability),
            description=f"compile {part.describe(self.name)}",
            error_text=part.error_text,
        )[made]

    def compile_tools(self, attributes: Values) -> tuple[str, ...]:
        """Return the distributions that decide the bytes of a compiled partition."""
        return self.tools

    def gpus(self, attributes: Values) -> int:
        """Return the number of GPUs that the compile step uses."""
        return 0

    def sidecar(self, attributes: Values) -> Sidecar | None:
        """Return the additional output of programs with this backend."""
        return None

    def partition_tools(self, attributes: Values) -> tuple[str, ...]:
        """Return the distributions that decide which nodes it takes, besides every lowering's."""
        return ()
