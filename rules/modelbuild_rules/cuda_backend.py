"""CUDA as a backend: the table in a `backend_stack`, and what each of its attributes decides."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from modelbuild.api import Attrs
from modelbuild_rules.backend_kind import Kind, Operators, Prerequisite, Values

CAPABILITIES = ("8.0", "8.6", "8.7", "8.9", "9.0", "10.0", "12.0")
"""Compute capabilities that libraries are made for (steps/_cuda_device.py states a GPU of each)."""

GLIBC = "2.28"
"""The glibc that a library may need where the device says nothing: that of executorch's own wheels."""

_SPECIFIC = 90
"""From this capability on, Triton uses what the next one does not have."""

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
    """CUDA: libraries of Triton kernels, made by AOTInductor for the device's compute capabilities without a GPU."""

    type: Literal["cuda"]

    build_on: Literal["cpu", "gpu"] = "cpu"
    """What libraries are made on: a machine without a GPU. "gpu", with kernels chosen by timing, is refused: it is not
    there yet."""

    min_block_size: int = Field(default=5, ge=1)
    """The fewest operators for which a library is made: each has a megabyte of code of its own."""

    exclude_ops: Operators = ()
    """Operators that it leaves to the next backend."""

    data_dependent: Literal["portable", "error"] = "portable"
    """What becomes of operators whose results have sizes that depend on values, such as nonzero, and of what follows
    them: they are left to the next backends, or the build fails."""

    emulate_precision_casts: bool = True
    """Round where eager mode rounds, between operators that are fused, as bf16 and fp16 models expect."""

    triton_kernels: bool = True
    """Use executorch's Triton kernels for attention and top-k where they fit."""

    target_device: Annotated[str, Field(pattern=r"^[a-z]+(:\d+)?$")] | None = None
    """What ExecuTorch is told about where inputs and outputs are, as "cuda:1". By default the device's cuda_index."""


class CudaKind(Kind):
    """Derives what both steps see from the table and the device."""

    __slots__ = ()

    def problem(self, attributes: Values, facts: Values) -> str:
        if attributes["build_on"] == "gpu":
            return 'build_on = "gpu" of the cuda backend can\'t be built yet; expected "cpu", which needs no GPU'
        wanted = facts["compute_capabilities"]
        if not wanted:
            return 'CUDA needs a device with compute_capability; expected one such as ["8.9"]'
        unknown = [name for name in wanted if name not in CAPABILITIES]
        if unknown:
            known = ", ".join(CAPABILITIES)
            return f"libraries for compute capability {unknown[0]} can't be made; expected one of {known}"
        lowest = min(wanted, key=_number)
        if len(wanted) > 1 and _number(lowest) >= _SPECIFIC:
            return f"code for compute capability {lowest} runs on no other; expected it alone, or with one below 9.0"
        return ""

    def offered(self, attributes: Values, facts: Values) -> dict[str, Any]:
        derived = {
            "target_device": attributes["target_device"] or f"cuda:{facts['cuda_index']}",
            "specs": {
                "emulate_precision_casts": "ON" if attributes["emulate_precision_casts"] else "OFF",
                "triton_kernel_mode": "ON" if attributes["triton_kernels"] else "OFF",
            },
        }
        return {name: attributes[name] for name in self.partition} | derived

    def compiled(self, attributes: Values, facts: Values) -> dict[str, Any]:
        return {"capabilities": sorted(map(_number, facts["compute_capabilities"])), "target": _target(facts)}

    def prerequisite(self, attributes: Values, facts: Values) -> Prerequisite:
        return Prerequisite("cpp_runtime", "runtime", {"target": _target(facts)}, ("ziglang",))

    def partition_tools(self, attributes: Values) -> tuple[str, ...]:
        return ("triton",)


CUDA = CudaKind(
    partition=("data_dependent", "exclude_ops", "min_block_size"),
    device=("arch", "compute_capabilities", "cuda_index", "min_glibc", "os"),
    tools=_TOOLS,
)


def _target(facts: Values) -> str:
    """The machine as zig names it."""
    return f"{facts['arch']}-{facts['os']}-gnu.{facts['min_glibc'] or GLIBC}"


def _number(capability: str) -> int:
    return int(capability.replace(".", ""))
