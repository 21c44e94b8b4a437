"""The kinds of backends: their tables in a `backend_stack`, and which step each of their attributes decides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Discriminator, Field

from modelbuild.api import Attrs
from modelbuild_rules.backend_kind import Kind, Operators, as_set
from modelbuild_rules.cuda_backend import CUDA, Cuda
from modelbuild_rules.tensorrt_backend import TENSORRT, Tensorrt

Precision = Literal["fp32", "static_quant", "dynamic_quant"]


class Xnnpack(Attrs):
    """XNNPACK: floating-point and quantized operators on the CPU."""

    type: Literal["xnnpack"]

    precisions: Annotated[tuple[Precision, ...], AfterValidator(as_set)] = Field(
        default=("dynamic_quant", "fp32", "static_quant"), min_length=1
    )
    """What it takes: floating-point operators (fp16 too), statically quantized ones, dynamically quantized linears."""

    per_op_mode: bool = False
    """A partition for each operator with what is fused into it, instead of as few partitions as there can be."""

    exclude_ops: Operators = ()
    """Operators that it leaves to the next backend."""

    force_non_static_weights_for_f32_linear: bool = False
    """Weights of floating-point linear layers stay outside of partitions, which get them as inputs at every call."""


class Portable(Attrs):
    """ExecuTorch's portable kernels: any operator that they have, on the CPU. They stand last in a stack."""

    type: Literal["portable"]

    ops: Operators | None = None
    """The only operators that may be left to them. The build fails for any other one; by default none is refused."""


Backends = tuple[Annotated[Xnnpack | Tensorrt | Cuda | Portable, Discriminator("type")], ...]


KINDS: Mapping[str, Kind] = {
    "xnnpack": Kind(
        partition=("precisions", "per_op_mode", "exclude_ops", "force_non_static_weights_for_f32_linear"),
        tools=("executorch", "sympy", "torch", "torchao"),
    ),
    "tensorrt": TENSORRT,
    "cuda": CUDA,
    "portable": Kind(partition=("ops",)),
}
