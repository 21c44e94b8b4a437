"""The CUDA backend: its table in a `backend_stack`, and the attributes that each step depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from modelbuild.api import Attrs, DerivedArtifact, Expander, Source
from modelbuild_rules.backend_api.backend import Backend, DeviceFacts, Operators, Part, Sidecar, Values
from modelbuild_rules.backend_api.cpp import cpp_runtime, target_of
from modelbuild_rules.backend_api.decides import Decides
from modelbuild_rules.backend_api.prerequisite import Prerequisite
from modelbuild_rules.backends.cuda.compilation import Compilation

CAPABILITIES = ("8.0", "8.6", "8.7", "8.9", "9.0", "10.0", "11.0", "12.0", "12.1")
"""Supported compute capabilities (backends/cuda/steps/kernels/device.py describes a GPU of each)."""

_SPECIFIC = 90
"""From this capability on, Triton uses features that later capabilities lack."""

_TOOLS = (
    "executorch",
    "nvidia-cuda-cccl",
    "nvidia-cuda-crt",
    "nvidia-cuda-nvcc",
    "nvidia-cuda-runtime",
    "sympy",
    "torch",
    "torchao",
    "triton",
    "ziglang",
)


class Cuda(Attrs):
    """CUDA: libraries of Triton kernels, compiled by AOTInductor without a GPU."""

    renamed: ClassVar[Mapping[str, str]] = {"data_dependent": "data_dependent_ops", "target_device": "gpu"}

    type: Literal["cuda"]
    """The kind of backend."""

    tuning: Annotated[Source | None, Decides("compile")] = None
    """A tuning file with choices of kernels. Estimated cost decides the others."""

    candidates: Annotated[int, Decides("compile", "emit")] = Field(default=0, ge=0, le=64)
    """Number of kernels to compile for each choice, the cheapest by estimate, for `NAME.tuning.pyz`: a program next to
    the .pte that times them on a GPU and writes a tuning file."""

    precision: Annotated[Literal["fp32", "tf32"], Decides("compile")] = "fp32"
    """Precision of float32 products and convolutions. TF32 is faster, with a fraction of 10 bits."""

    min_block_size: Annotated[int, Decides("partition")] = Field(default=5, ge=1)
    """Minimum number of operators in a library, of about a megabyte of code."""

    exclude_ops: Annotated[Operators, Decides("partition")] = ()
    """Operators to leave to the next backend."""

    data_dependent_ops: Annotated[Literal["take", "fallback", "error"], Decides("partition")] = "take"
    """Take operators whose sizes depend on values, such as nonzero and its users, leave them to the next backends, or
    fail the build. No CUDA graph can contain a library with such operators."""

    emulate_precision_casts: Annotated[bool, Decides("partition")] = True
    """Round between fused operators as eager mode does in bf16 and fp16."""

    gpu: Annotated[int | None, Decides("partition")] = Field(default=None, ge=0, le=127)
    """Index of the device's GPU that runs the partitions; by default `gpu` of the device."""


@dataclass(frozen=True)
class CudaBackend(Backend):
    """The declaration, which derives the steps' attributes from the table and the device."""

    def contradiction(self, table: Attrs) -> tuple[str, str] | None:
        """Return the attribute to change and the problem if attributes contradict each other."""
        assert isinstance(table, Cuda)
        if table.candidates == 1:
            return "candidates", "there is nothing to choose from 1 candidate; expected 2 or more, or 0"
        return None

    def problem(self, attributes: Values, facts: DeviceFacts) -> str:
        wanted = facts["compute_capabilities"]
        if not wanted:
            return 'CUDA needs a device with compute_capabilities; expected one such as ["8.9"]'
        unknown = [name for name in wanted if name not in CAPABILITIES]
        if unknown:
            known = ", ".join(CAPABILITIES)
            return f"compute capability {unknown[0]} is not supported; expected one of {known}"
        lowest = min(wanted, key=_number)
        if attributes["candidates"] and len(wanted) > 1:
            return "candidates are timed for one compute capability; expected a device with one"
        if len(wanted) > 1 and _number(lowest) >= _SPECIFIC:
            return f"code for compute capability {lowest} runs only there; expected it alone, or with one below 9.0"
        return ""

    def partition_attributes(self, attributes: Values, facts: DeviceFacts) -> dict[str, Any]:
        own = super().partition_attributes(attributes, facts)
        gpu, casts = (own.pop(name) for name in ("gpu", "emulate_precision_casts"))
        specs = {"emulate_precision_casts": "ON" if casts else "OFF", "triton_kernel_mode": "ON"}
        return {**own, "target_device": f"cuda:{facts['gpu'] if gpu is None else gpu}", "specs": specs}

    def compile_attributes(self, attributes: Values, facts: DeviceFacts) -> dict[str, Any]:
        own = super().compile_attributes(attributes, {})
        capabilities = sorted(map(_number, facts["compute_capabilities"]))
        return {**own, "capabilities": capabilities, "target": _target(facts)}

    def compile(self, ctx: Expander, part: Part) -> DerivedArtifact:
        """Declare actions: one generates the code, one compiles each kernel, one the C++ source, and one links them.
        Candidates to time are compiled with the code."""
        attributes = self.compile_attributes(part.attributes, part.facts)
        return Compilation(part, self.tools, attributes).compile(ctx)

    def sidecar(self, attributes: Values) -> Sidecar | None:
        merging = "modelbuild_rules.backends.cuda.steps.kernels.candidates"
        return Sidecar("tuning.pyz", merging) if attributes["candidates"] else None

    def prerequisite(self, attributes: Values, facts: DeviceFacts) -> Prerequisite:
        return cpp_runtime(_target(facts))

    def partition_tools(self, attributes: Values) -> tuple[str, ...]:
        return ("triton",)


CUDA = CudaBackend(
    "backend",
    "cuda",
    Cuda,
    tools=_TOOLS,
    extras=("cuda",),
    partitioning="modelbuild_rules.backends.cuda.steps.partitioning",
    compiling="modelbuild_rules.backends.cuda.steps.compile",
    storing="modelbuild_rules.backends.cuda.steps.storing",
    device=("arch", "compute_capabilities", "gpu", "min_glibc", "os"),
)


def _target(facts: DeviceFacts) -> str:
    """Return zig's name of the machine."""
    return target_of(facts["arch"], facts["os"], facts["min_glibc"])


def _number(capability: str) -> int:
    return int(capability.replace(".", ""))
