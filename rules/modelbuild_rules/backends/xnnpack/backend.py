"""The XNNPACK backend: its table in a `backend_stack`, and the attributes that each step depends on."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from modelbuild.api import Attrs
from modelbuild_rules.backend_api.backend import Backend, Library, Operators, as_set
from modelbuild_rules.backend_api.decides import Decides

Precision = Literal["fp32", "static_quant", "dynamic_quant"]
Lossy = Literal["float16"]


class Xnnpack(Attrs):
    """XNNPACK: floating-point and quantized operators on the CPU."""

    type: Literal["xnnpack"]
    """The kind of backend."""

    precisions: Annotated[tuple[Precision, ...], AfterValidator(as_set), Decides("partition")] = Field(
        default=("dynamic_quant", "fp32", "static_quant"), min_length=1
    )
    """Kinds of operators to take: floating-point (also fp16), statically quantized, dynamically quantized linear."""

    per_op_mode: Annotated[bool, Decides("partition")] = False
    """Make a partition for each operator and the operators fused with it, instead of the fewest."""

    exclude_ops: Annotated[Operators, Decides("partition")] = ()
    """Operators to leave to the next backend."""

    force_non_static_weights_for_f32_linear: Annotated[bool, Decides("partition")] = False
    """Keep weights of floating-point linear layers outside partitions, as inputs of each call."""

    lossy: Annotated[tuple[Lossy, ...], AfterValidator(as_set), Decides("partition")] = ()
    """Operators to take although their kernels lose NaN on x86: float16 convolutions, linear layers, activations and
    pools."""


_TOOLS = ("executorch", "sympy", "torch", "torchao")
_FILES = ("lib/libexecutorch_backend_xnnpack.so",)

XNNPACK = Backend(
    "backend",
    "xnnpack",
    Xnnpack,
    tools=_TOOLS,
    runs_here=True,
    extras=("models",),
    partitioning="modelbuild_rules.backends.xnnpack.steps.partitioning",
    compiling="modelbuild_rules.backends.xnnpack.steps.compile",
    storing="modelbuild_rules.backends.xnnpack.steps.storing",
    store_tools=_TOOLS,
    libraries=(
        Library("XNNPACK", "BSD-3-Clause", _FILES),
        Library("FP16", "MIT", _FILES),
        Library("FXdiv", "MIT", _FILES),
    ),
)
