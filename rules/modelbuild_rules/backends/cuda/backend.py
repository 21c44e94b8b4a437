"""CUDA as a backend: the table in a `backend_stack`, and what each of its attributes decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from modelbuild.api import Attrs, Source
from modelbuild_rules.backends.backend import Backend, Beside, Operators, Prerequisite, Values

CAPABILITIES = ("8.0", "8.6", "8.7", "8.9", "9.0", "10.0", "12.0")
"""Compute capabilities that libraries are made for (backends/cuda/steps/kernels/device.py states a GPU of each)."""

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
    """What libraries are made on: any machine, with kernels chosen by their cost or by `tuning`; or a GPU of the
    device's compute capability, on which they are timed. The program has a tuning file beside it then."""

    tuning: Source | None = None
    """A tuning file, as a build on a GPU writes it: kernels are chosen as they were there, without a GPU."""

    gpu: str | None = Field(default=None, min_length=1)
    """The GPU that has to time kernels, by a part of its name, as "H100". By default any of the compute capability."""

    precision: Literal["fp32", "tf32"] = "fp32"
    """How products and convolutions of float32 are computed: as they are, or with TF32, which is faster and has 10 bits
    of fraction."""

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

    target_device: Annotated[str, Field(pattern=r"^[a-z]+(:[0-9]{1,3})?$")] | None = None
    """What ExecuTorch is told about where inputs and outputs are, as "cuda:1". By default the device's cuda_index."""


@dataclass(frozen=True)
class CudaBackend(Backend):
    """Derives the attributes that both steps see from the table and the device."""

    def contradiction(self, table: Attrs) -> tuple[str, str] | None:
        """Of attributes that exclude each other, the one to change and what is wrong; None where there are none."""
        assert isinstance(table, Cuda)
        if table.build_on == "gpu" and table.tuning is not None:
            return "tuning", 'with build_on = "gpu" kernels are timed; expected one of the two'
        if table.build_on == "cpu" and table.gpu is not None:
            return "gpu", 'no GPU times kernels; expected build_on = "gpu" with it'
        return None

    def problem(self, attributes: Values, facts: Values) -> str:
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
        if attributes["build_on"] == "gpu" and len(wanted) > 1:
            return 'build_on = "gpu" times kernels for one compute capability; expected one, or build_on = "cpu"'
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
        derived = {"capabilities": sorted(map(_number, facts["compute_capabilities"])), "target": _target(facts)}
        return derived | {name: attributes[name] for name in self.compile}

    def gpus(self, attributes: Values) -> int:
        return int(attributes["build_on"] == "gpu")

    def beside(self, attributes: Values) -> Beside | None:
        tuning = "modelbuild_rules.backends.cuda.steps.kernels.tuning"
        return Beside("tuning.json", tuning) if attributes["build_on"] == "gpu" else None

    def prerequisite(self, attributes: Values, facts: Values) -> Prerequisite:
        return Prerequisite(
            "modelbuild_rules.backends.cuda.steps.cpp_runtime", "runtime", {"target": _target(facts)}, ("ziglang",)
        )

    def partition_tools(self, attributes: Values) -> tuple[str, ...]:
        return ("triton",)


CUDA = CudaBackend(
    "backend",
    "cuda",
    Cuda,
    tools=_TOOLS,
    partitioning="modelbuild_rules.backends.cuda.steps.partitioning",
    compiling="modelbuild_rules.backends.cuda.steps.compile",
    partition=("data_dependent", "exclude_ops", "min_block_size"),
    compile=("build_on", "gpu", "precision"),
    device=("arch", "compute_capabilities", "cuda_index", "min_glibc", "os"),
)


def _target(facts: Values) -> str:
    """The machine as zig names it."""
    return f"{facts['arch']}-{facts['os']}-gnu.{facts['min_glibc'] or GLIBC}"


def _number(capability: str) -> int:
    return int(capability.replace(".", ""))
