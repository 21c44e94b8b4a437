"""What the rules about models tell each other: an exported model, a backend stack, a device, a program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from modelbuild.api import Artifact, Platform, Provider, Runnable
from modelbuild_rules.backends.backend import Backend


@dataclass(frozen=True)
class ExportedModel(Provider):
    """A model that is no longer Python.

    program    tree: the graph and its signature (what `model/steps/exported/program.py` writes), without weights
    weights    tree: one file a tensor, named canonically
    signature  file: JSON of inputs (name, dtype, shape with named dynamic dimensions, range) and outputs
    examples   file: example inputs as safetensors, named by their places "0", "1", ...
    debug      file: JSON of node -> where in the model's source it comes from; no later step may read it
    inputs     names of the inputs, as in the signature; None where they are known only from there
    """

    program: Artifact
    weights: Artifact
    signature: Artifact
    examples: Artifact
    debug: Artifact
    inputs: tuple[str, ...] | None = None


@dataclass(frozen=True)
class EagerModel(Provider):
    """What it takes to make a model in eager PyTorch again: inputs by name and parameters of the export step, and the
    distributions whose versions decide what it computes."""

    inputs: Mapping[str, tuple[Artifact, ...]]
    params: Mapping[str, Any]
    tools: tuple[str, ...]


@dataclass(frozen=True)
class StackEntry:
    """One backend of a stack: its declaration, its attributes (JSON values, with defaults), and the files that
    compiling reads, by attribute."""

    backend: Backend
    attributes: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, Artifact] = field(default_factory=dict)


@dataclass(frozen=True)
class BackendStack(Provider):
    """Backends in the order in which they are offered each node."""

    backends: tuple[StackEntry, ...]


@dataclass(frozen=True)
class DeviceTarget(Platform):
    """What a program is compiled for.

    arch, os              as in wheels' platform tags ("x86_64", "aarch64"; "linux")
    compute_capabilities  CUDA compute capabilities as "8.6", in the order declared; empty for a device without CUDA
    cuda_index            which GPU of the device runs the program
    memory                bytes of GPU memory (of main memory where there is no GPU); None is unknown
    min_glibc             oldest glibc that compiled libraries must load on, as "2.31"; None is no demand
    """

    arch: str
    os: str = "linux"
    compute_capabilities: tuple[str, ...] = ()
    cuda_index: int = 0
    memory: int | None = None
    min_glibc: str | None = None


@dataclass(frozen=True)
class Lowering:
    """How a program was made, for those who look inside.

    model          what it was made of
    backends       of each backend of the stack: as the partition step sees it, and with the import name of its compile
                   step (`compiling`) and the attributes that this sees (`compiled`)
    prerequisites  of each backend: what compiling takes beside a partition
    tools          distributions whose versions decide what comes out
    """

    model: ExportedModel
    backends: tuple[Mapping[str, Any], ...]
    prerequisites: tuple[Mapping[str, Artifact], ...]
    tools: tuple[str, ...]


@dataclass(frozen=True)
class Program(Runnable):
    """A program that ExecuTorch runs.

    pte         file: the program
    ptd         file: weights kept outside the program; None where there are none
    delegation  file: JSON of which backend took each node and why
    signature   file: as in ExportedModel
    lowering    how it was made; None where that is not known
    device      what it was compiled for; None where that is not known, or does not matter
    """

    pte: Artifact
    ptd: Artifact | None
    delegation: Artifact
    signature: Artifact
    lowering: Lowering | None = None
    device: DeviceTarget | None = None

    @property
    def input_names(self) -> tuple[str, ...] | None:
        return self.lowering.model.inputs if self.lowering is not None else None
