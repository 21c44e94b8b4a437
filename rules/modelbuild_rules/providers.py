"""Providers that the model rules exchange: an exported model, a backend stack, a device, a program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from modelbuild.api import Artifact, DeviceRunner, DeviceSpec, Platform, Provider, Runnable
from modelbuild_rules.backend_api.backend import Backend
from modelbuild_rules.backend_api.quantizer import Quantizer

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import ModelParams, PartTensor
    from modelbuild_rules.program.documents import LoweredBackend


@dataclass(frozen=True)
class KernelLibrary(Provider):
    """Operators, and the sources of their kernels.

    name       the library's name in programs
    operators  as "my_ops::scale"
    eager      Python files that register the operators
    described  operators.json of kernels/steps/operators.py
    srcs       C++ sources
    headers    C++ headers
    tools      distributions that decide the behaviour of `eager`
    """

    made_by: ClassVar[tuple[str, ...]] = ("kernel_library",)

    name: str
    operators: tuple[str, ...]
    eager: tuple[Artifact, ...]
    described: Artifact
    srcs: tuple[Artifact, ...]
    headers: tuple[Artifact, ...]
    tools: tuple[str, ...]


@dataclass(frozen=True)
class CompiledKernels:
    """A kernel library for a program's device: the library, and its description for the C++ runtime."""

    name: str
    library: Artifact
    description: Artifact


@dataclass(frozen=True)
class QuantizerEntry:
    """One quantizer of a recipe: its declaration and its attributes (JSON values, defaults included)."""

    quantizer: Quantizer
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class QuantizationRecipe(Provider):
    """Quantizers, in the order in which they are offered operators."""

    made_by: ClassVar[tuple[str, ...]] = ("quantization_recipe",)

    quantizers: tuple[QuantizerEntry, ...]


@dataclass(frozen=True)
class Dataset(Provider):
    """Samples, by one of the fields.

    files      the same number of files for each name, in the samples' order
    archives   a .npz or .safetensors file for each sample
    generated  tree: a file for each sample, 0.safetensors, 1.safetensors, ...
    """

    made_by: ClassVar[tuple[str, ...]] = ("dataset",)

    files: Mapping[str, tuple[Artifact, ...]] = field(default_factory=dict)
    archives: tuple[Artifact, ...] = ()
    generated: Artifact | None = None

    @property
    def sources(self) -> tuple[Artifact, ...]:
        """Return the files that are not generated."""
        return (*self.archives, *(file for files in self.files.values() for file in files))


@dataclass(frozen=True)
class ExportedMethod:
    """A method of a model as an exported program, independent of its Python source.

    program    tree: the graph and its signature (what `model/steps/exported/program.py` writes), without weights
    weights    tree: one file per tensor, under canonical names
    signature  file: JSON of inputs (name, dtype, shape with named dynamic dimensions, range) and outputs
    examples   file: example inputs as safetensors, named by position: "0", "1", ...
    calls      tree: calls with the module's outputs, which model/steps/calls/recorded.py writes
    debug      file: JSON of node -> its place in the model's source; no later step may read it
    inputs     names of the inputs, as in the signature; None if only the signature has them
    kernels    libraries of operators that it calls
    quantizers  quantizers of the recipe that quantized it; empty for a model in floating point
    """

    program: Artifact
    weights: Artifact
    signature: Artifact
    examples: Artifact
    calls: Artifact
    debug: Artifact
    inputs: tuple[str, ...] | None = None
    kernels: tuple[KernelLibrary, ...] = ()
    quantizers: tuple[QuantizerEntry, ...] = ()


@dataclass(frozen=True)
class EagerMethod:
    """The inputs (by name) and parameters from which a step makes the module in eager PyTorch, as the export step does,
    and the distributions whose versions decide its results. `examples` are additional inputs of the export step:
    example inputs from files. With inputs `exported.program` and `exported.weights`, the module is the exported
    program."""

    inputs: Mapping[str, tuple[Artifact, ...]]
    params: ModelParams
    tools: tuple[str, ...]
    examples: Mapping[str, tuple[Artifact, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelMethod:
    """A method of a model: exported, and in eager PyTorch, unless it was compiled elsewhere."""

    exported: ExportedMethod
    eager: EagerMethod | None = None


@dataclass(frozen=True)
class Model(Provider):
    """A module: its methods by name. A model without declared methods has the method `forward`."""

    made_by: ClassVar[tuple[str, ...]] = ("torch_model", "quantized_model")

    methods: Mapping[str, ModelMethod]


@dataclass(frozen=True)
class StackEntry:
    """One backend of a stack: its declaration, its attributes (JSON values, defaults included), and the files that its
    compile step reads, by attribute; and for messages the places of given attributes, as `BUILD.toml:3:1`."""

    backend: Backend
    attributes: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, Artifact] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class CompiledModule(Provider):
    """A module that was compiled elsewhere, such as a TensorRT engine.

    backend     the backend of the module's calls, as an entry of a stack
    inputs      in the order of the module's arguments
    outputs     in the order of the delegate's results
    """

    backend: StackEntry
    inputs: tuple[PartTensor, ...]
    outputs: tuple[PartTensor, ...]


@dataclass(frozen=True)
class BackendStack(Provider):
    """Backends in the order in which they are offered each node."""

    made_by: ClassVar[tuple[str, ...]] = ("backend_stack",)

    backends: tuple[StackEntry, ...]


@dataclass(frozen=True)
class Reached(Provider):
    """A way to reach a device."""

    made_by: ClassVar[tuple[str, ...]] = ("device_runner",)

    runner: DeviceRunner


@dataclass(frozen=True)
class DeviceTarget(Platform):
    """A kind of machine that programs are compiled for.

    arch, os              as in wheels' platform tags ("x86_64", "aarch64"; "linux")
    compute_capabilities  as "8.6", in the order declared; empty for a device without CUDA
    gpu                   of the GPU that runs the program
    memory                bytes of GPU memory, or of main memory without a GPU; None if unknown
    min_glibc             oldest glibc that libraries must load on, as "2.31"; None for any
    runners               ways to reach devices of this kind; no key contains them
    """

    made_by: ClassVar[tuple[str, ...]] = ("device_target",)

    arch: str
    os: str = "linux"
    compute_capabilities: tuple[str, ...] = ()
    gpu: int = 0
    memory: int | None = None
    min_glibc: str | None = None
    runners: tuple[DeviceRunner, ...] = ()

    @property
    def spec(self) -> DeviceSpec:
        return DeviceSpec(self.runners, self.arch, self.compute_capabilities)


@dataclass(frozen=True)
class Lowering:
    """The lowering of a program, for steps that repeat it to inspect its parts.

    model          the model that was lowered
    backends       the backends of the stack
    prerequisites  for each backend: the inputs of its compile step in addition to the partition
    tools          distributions whose versions decide the program's bytes
    """

    model: ExportedMethod
    backends: tuple[LoweredBackend, ...]
    prerequisites: tuple[Mapping[str, Artifact], ...]
    tools: tuple[str, ...]


@dataclass(frozen=True)
class ProgramMethod:
    """A method of a program.

    inputs    names of its inputs; None if only its signature has them
    lowering  its lowering; None if unknown
    module    the number of its module; methods with the same number share their state
    """

    inputs: tuple[str, ...] | None = None
    lowering: Lowering | None = None
    module: int = 0


@dataclass(frozen=True)
class Program(Runnable):
    """A program that ExecuTorch runs.

    pte         file: the program
    ptd         file: weights outside the program; None if there are none
    delegation  file: JSON of each node's backend, and others' reasons to refuse it
    signature   file: JSON of the inputs and outputs of each method
    methods     its methods by name
    device      the device that it was compiled for; None if unknown or irrelevant
    kernels     kernel libraries for its device
    verified    file: the comparison with its model; None if it was not compared
    """

    made_by: ClassVar[tuple[str, ...]] = ("pte_program",)

    pte: Artifact
    ptd: Artifact | None
    delegation: Artifact
    signature: Artifact
    methods: Mapping[str, ProgramMethod]
    device: DeviceTarget | None = None
    kernels: tuple[CompiledKernels, ...] = ()
    verified: Artifact | None = None

    @property
    def method_inputs(self) -> Mapping[str, tuple[str, ...] | None]:
        return {name: method.inputs for name, method in self.methods.items()}
