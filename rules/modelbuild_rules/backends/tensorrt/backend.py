"""The TensorRT backend: its table in a `backend_stack`, and the attributes that each step depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from platform import machine
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from modelbuild.api import Attrs, Size
from modelbuild_rules.backend_api.backend import Backend, DeviceFacts, Library, Operators, Values
from modelbuild_rules.backend_api.decides import Decides

RTX_CAPABILITIES = ("7.5", "8.0", "8.6", "8.9", "12.0", "12.1")
"""Compute capabilities that tensorrt_rtx 1.6.1.120 builds engines for."""

RTX_ARCHITECTURES = ("x86_64",)
"""Architectures for which NVIDIA publishes TensorRT-RTX's library for Linux."""

_TOOLS = {
    "rtx": ("tensorrt_rtx", "tensorrt_rtx_cu13_bindings", "tensorrt_rtx_cu13_libs", "torch-tensorrt-rtx"),
    "standard": ("tensorrt", "torch-tensorrt"),
}
_TORCH = ("executorch", "sympy", "torch", "torchao")


class Profile(Attrs):
    """The shapes of an input in an optimization profile."""

    min: tuple[int, ...]
    """The smallest shape."""

    opt: tuple[int, ...]
    """The shape to optimize for."""

    max: tuple[int, ...]
    """The largest shape."""


class Tensorrt(Attrs):
    """TensorRT: engines for NVIDIA GPUs."""

    renamed: ClassVar[Mapping[str, str]] = {
        "torch_executed_ops": "exclude_ops",
        "fallback_data_dependent_ops": "data_dependent_ops",
        "target_device": "gpu",
    }

    type: Literal["tensorrt"]
    """The kind of backend."""

    flavour: Annotated[Literal["rtx", "standard"], Decides("partition", "compile")] = "rtx"
    """`rtx` (TensorRT-RTX) builds without a GPU, `standard` on a GPU of the device's kind."""

    precision: Annotated[Literal["fp32", "tf32", "fp16", "bf16"], Decides("partition", "compile")] = "tf32"
    """Precision of float32 operators: fp32, TF32 products, or fp16 or bf16 without TF32. With fp16 or bf16, the
    exceptions of the recipe `half` (exp, sum, norms and others) and operators on 8-bit values stay fp32, and a model
    without float32 operators is an error. The model's own fp16 and bf16 tensors stay so."""

    min_block_size: Annotated[int, Decides("partition")] = Field(default=5, ge=1)
    """Minimum number of operators in an engine."""

    exclude_ops: Annotated[Operators, Decides("partition")] = ()
    """Operators to leave to the next backend."""

    data_dependent_ops: Annotated[Literal["fallback", "take"] | None, Decides("partition", "compile")] = None
    """Leave operators whose converter needs an output allocator, such as nonzero, to the next backend, or take them. By
    default "fallback" with `rtx`, which cannot build them, and "take" with `standard`."""

    optimization_profiles: Annotated[tuple[dict[str, Profile], ...], Decides("partition")] = ()
    """Shapes by input. By default, one profile with the range of each dynamic dimension."""

    workspace_size: Annotated[Size, Decides("compile")] = Field(default=1 << 30, validate_default=True)
    """Memory that an engine may use besides its weights."""

    on_failure: Annotated[Literal["error", "fallback"], Decides("partition")] = "error"
    """If TensorRT cannot build an engine: fail, or leave its nodes to the next backend. `fallback` builds each engine
    twice: also in the partition step."""

    gpu: Annotated[int | None, Decides("partition", "compile")] = Field(default=None, ge=0, le=127)
    """Index of the device's GPU that runs the partitions; by default `gpu` of the device."""


def _falls_back(flavour: str, given: str | None) -> bool:
    """Return the value of torch_tensorrt's fallback_data_dependent_ops, with the flavour's default."""
    return flavour == "rtx" if given is None else given == "fallback"


@dataclass(frozen=True)
class TensorrtBackend(Backend):
    """The declaration, which derives the steps' attributes from the table and the device."""

    def problem(self, attributes: Values, facts: DeviceFacts) -> str:
        wanted = facts["compute_capabilities"]
        if not wanted:
            return 'TensorRT needs a device with compute_capabilities; expected one such as ["8.9"]'
        if attributes["flavour"] == "rtx" and facts["arch"] not in RTX_ARCHITECTURES:
            return (
                f"TensorRT-RTX has no library for {facts['arch']}; expected a device with arch"
                f' {" or ".join(RTX_ARCHITECTURES)}, or flavour = "standard"'
            )
        unknown = [name for name in wanted if name not in RTX_CAPABILITIES]
        if attributes["flavour"] == "rtx" and unknown:
            return (
                f"TensorRT-RTX does not support compute capability {unknown[0]}; expected one of"
                f' {", ".join(RTX_CAPABILITIES)}, or flavour = "standard"'
            )
        here = machine()
        if attributes["flavour"] == "standard" and facts["arch"] != here:
            return (
                f"the standard flavour of TensorRT builds engines for the machine that it runs on, {here}; expected a"
                f" device with arch {here}, or a build on a machine with {facts['arch']}"
            )
        if attributes["flavour"] == "standard" and len(wanted) > 1:
            return (
                'the standard flavour of TensorRT builds for one compute capability; expected one, or flavour = "rtx"'
            )
        return ""

    def partition_attributes(self, attributes: Values, facts: DeviceFacts) -> dict[str, Any]:
        own = super().partition_attributes(attributes, facts)
        given, on_failure, _ = (own.pop(name) for name in ("data_dependent_ops", "on_failure", "gpu"))
        return {
            **own,
            "fallback_data_dependent_ops": _falls_back(own["flavour"], given),
            "target_device": f"cuda:{_gpu(attributes, facts)}",
            # The engine's settings decide the partition step only if the step builds engines to find partitions that
            # fail.
            "engine": self.compile_attributes(attributes, facts) if on_failure == "fallback" else None,
        }

    def compile_attributes(self, attributes: Values, facts: DeviceFacts) -> dict[str, Any]:
        own = super().compile_attributes(attributes, {})
        given = own.pop("data_dependent_ops")
        return {
            **own,
            "fallback_data_dependent_ops": _falls_back(own["flavour"], given),
            "compute_capabilities": sorted(facts["compute_capabilities"], key=_number),
            "gpu": _gpu(attributes, facts),
            "platform": f"{facts['os']}_{facts['arch']}",
        }

    def compile_tools(self, attributes: Values) -> tuple[str, ...]:
        return _TORCH + _TOOLS[attributes["flavour"]]

    def gpus(self, attributes: Values) -> int:
        return int(attributes["flavour"] == "standard")

    def partition_tools(self, attributes: Values) -> tuple[str, ...]:
        return _TOOLS[attributes["flavour"]]


TENSORRT = TensorrtBackend(
    "backend",
    "tensorrt",
    Tensorrt,
    tools=tuple(sorted({*_TORCH, *_TOOLS["rtx"], *_TOOLS["standard"]})),
    delegate="TensorRTBackend",
    describing="modelbuild_rules.backends.tensorrt.blob_reader",
    extras=("tensorrt-rtx", "tensorrt"),
    partitioning="modelbuild_rules.backends.tensorrt.steps.partitioning",
    compiling="modelbuild_rules.backends.tensorrt.steps.compile",
    device=("arch", "compute_capabilities", "gpu", "os"),
    libraries=(
        Library(
            "torch-tensorrt-executorch-runtime",
            "BSD-3-Clause",
            ("lib/libaoti_cuda_shims.so", "lib/libextension_cuda.so"),
            "torch-tensorrt-executorch-runtime",
            "pkg:pypi/torch-tensorrt-executorch-runtime",
        ),
    ),
)


def _gpu(attributes: Values, facts: DeviceFacts) -> int:
    return int(facts["gpu"] if attributes["gpu"] is None else attributes["gpu"])


def _number(capability: str) -> tuple[int, ...]:
    return tuple(int(part) for part in capability.split("."))
