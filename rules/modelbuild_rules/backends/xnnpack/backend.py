"""XNNPACK as a backend: the table in a `backend_stack`, and what each of its attributes decides."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from modelbuild.api import Attrs
from modelbuild_rules.backends.backend import Backend, Operators, as_set

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


XNNPACK = Backend(
    "backend",
    "xnnpack",
    Xnnpack,
    tools=("executorch", "sympy", "torch", "torchao"),
    partitioning="modelbuild_rules.backends.xnnpack.steps.partitioning",
    compiling="modelbuild_rules.backends.xnnpack.steps.compile",
    partition=("precisions", "per_op_mode", "exclude_ops", "force_non_static_weights_for_f32_linear"),
)
