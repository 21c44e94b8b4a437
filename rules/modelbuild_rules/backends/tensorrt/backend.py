"""TensorRT as a backend: the table in a `backend_stack`, and what each of its attributes decides."""

from __future__ import annotations

from dataclasses import dataclass
from platform import machine
from typing import Annotated, Any, Literal

from pydantic import Field

from modelbuild.api import Attrs, Size
from modelbuild_rules.backends.backend import Backend, Operators, Values

RTX_CAPABILITIES = ("7.5", "8.0", "8.6", "8.9", "12.0", "12.1")
"""Compute capabilities that tensorrt_rtx 1.6.1.120 builds engines for."""

_TOOLS = {
    "rtx": ("tensorrt_rtx", "tensorrt_rtx_cu13_bindings", "tensorrt_rtx_cu13_libs", "torch-tensorrt-rtx"),
    "standard": ("tensorrt", "torch-tensorrt"),
}
_TORCH = ("executorch", "sympy", "torch", "torchao")


class Profile(Attrs):
    """The shapes of one input in an optimization profile: as many sizes as the input has dimensions."""

    min: tuple[int, ...]
    """The least shape."""

    opt: tuple[int, ...]
    """The shape that is served best."""

    max: tuple[int, ...]
    """The greatest shape."""


class Tensorrt(Attrs):
    """TensorRT: engines for NVIDIA GPUs, built for the device's compute capabilities without a GPU (flavour rtx)."""

    type: Literal["tensorrt"]

    flavour: Literal["rtx", "standard"] = "rtx"
    """`rtx` (TensorRT-RTX) needs no GPU to build; `standard` builds on the GPU that the engine is for."""

    precision: Literal["fp32", "tf32", "fp16", "bf16"] = "tf32"
    """How float32 is computed: as it is, with TF32 products, or in fp16 or bf16 where torch_tensorrt's rules for
    autocast allow it. A model's own fp16 and bf16 stay what they are: networks are strongly typed."""

    min_block_size: int = Field(default=5, ge=1)
    """The fewest operators for which an engine is made."""

    torch_executed_ops: Operators = ()
    """Operators that it leaves to the next backend."""

    require_full_compilation: bool = False
    """The build fails unless TensorRT takes every node, in one engine. It wants fallback_data_dependent_ops = false,
    which `rtx` does not have by default."""

    fallback_data_dependent_ops: bool | None = None
    """Leave operators whose converter needs an output allocator, such as nonzero, to the next backend. By default so
    with `rtx`, which builds none of them, and not so with `standard`."""

    optimization_profiles: tuple[dict[str, Profile], ...] = ()
    """Shapes to build for, by input. By default one profile: each dynamic dimension's declared range."""

    workspace_size: Size = Field(default=1 << 30, validate_default=True)
    """Memory that an engine may use beside its weights: bytes, or text such as "1GiB"."""

    on_failure: Literal["error", "fallback"] = "error"
    """When TensorRT can't build an engine of a partition: fail, or leave its nodes to the next backend. The latter
    builds each engine twice, once to see whether it can be."""

    gpu: int | None = Field(default=None, ge=0, le=127)
    """Which of the device's GPUs runs the engines, when it is not the device's cuda_index."""

    target_device: Annotated[str, Field(pattern=r"^[a-z]+(:[0-9]{1,3})?$")] | None = None
    """What ExecuTorch is told about where inputs and outputs are, as "cuda:1". By default the engine's GPU."""


def fallback(flavour: str, given: bool | None) -> bool:
    """What fallback_data_dependent_ops comes to."""
    return flavour == "rtx" if given is None else given


@dataclass(frozen=True)
class TensorrtBackend(Backend):
    """Derives the attributes that both steps see from the table and the device."""

    def contradiction(self, table: Attrs) -> tuple[str, str] | None:
        """Of attributes that exclude each other, the one to change and what is wrong; None where there are none."""
        assert isinstance(table, Tensorrt)
        given = table.fallback_data_dependent_ops
        if not table.require_full_compilation or not fallback(table.flavour, given):
            return None
        message = "require_full_compilation leaves no node to fall back; expected "
        if given:
            return "fallback_data_dependent_ops", f"{message}one of the two"
        by_default = f"fallback_data_dependent_ops = false with it, which is true with the flavour {table.flavour}"
        return "require_full_compilation", f"{message}{by_default}"

    def problem(self, attributes: Values, facts: Values) -> str:
        wanted = facts["compute_capabilities"]
        if not wanted:
            return 'TensorRT needs a device with compute_capability; expected one such as ["8.9"]'
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
                f' device with arch {here}, or flavour = "rtx"'
            )
        if attributes["flavour"] == "standard" and len(wanted) > 1:
            return (
                'the standard flavour of TensorRT builds for one compute capability; expected one, or flavour = "rtx"'
            )
        return ""

    def offered(self, attributes: Values, facts: Values) -> dict[str, Any]:
        derived = {
            "fallback_data_dependent_ops": fallback(attributes["flavour"], attributes["fallback_data_dependent_ops"]),
            "target_device": attributes["target_device"] or f"cuda:{_gpu(attributes, facts)}",
        }
        # Only where partitions are built to see whether they can be do the engine's own settings decide.
        tried = {"engine": self.compiled(attributes, facts) if attributes["on_failure"] == "fallback" else None}
        return {name: attributes[name] for name in self.partition} | derived | tried

    def compiled(self, attributes: Values, facts: Values) -> dict[str, Any]:
        derived = {
            "fallback_data_dependent_ops": fallback(attributes["flavour"], attributes["fallback_data_dependent_ops"]),
            "compute_capabilities": sorted(facts["compute_capabilities"], key=_number),
            "gpu": _gpu(attributes, facts),
            "platform": f"{facts['os']}_{facts['arch']}",
        }
        return {name: attributes[name] for name in self.compile} | derived

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
    partitioning="modelbuild_rules.backends.tensorrt.steps.partitioning",
    compiling="modelbuild_rules.backends.tensorrt.steps.compile",
    partition=(
        "flavour",
        "precision",
        "min_block_size",
        "torch_executed_ops",
        "require_full_compilation",
        "optimization_profiles",
    ),
    compile=("flavour", "precision", "workspace_size"),
    device=("arch", "compute_capabilities", "cuda_index", "os"),
    examples=True,
)


def _gpu(attributes: Values, facts: Values) -> int:
    return int(facts["cuda_index"] if attributes["gpu"] is None else attributes["gpu"])


def _number(capability: str) -> tuple[int, ...]:
    return tuple(int(part) for part in capability.split("."))
