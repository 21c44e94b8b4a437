"""The kinds of backends: their tables in a `backend_stack`, and which step each of their attributes decides."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, Discriminator, Field

from modelbuild.api import Attrs

_OPERATOR = re.compile(r"[A-Za-z_]\w*\.\w+\.\w+\Z")


def _operator(text: str) -> str:
    if not _OPERATOR.match(text):
        raise ValueError(f"'{text}' is not an operator; expected namespace.name.overload, as in aten.add.Tensor")
    return text


def _as_set(values: tuple[str, ...]) -> tuple[str, ...]:
    """One order, and each value once: two ways to write a set are one key."""
    return tuple(sorted(set(values)))


Operator = Annotated[str, AfterValidator(_operator)]
"""An operator as delegation.json names it: `aten.add.Tensor`, `aten.linear.default`."""

Operators = Annotated[tuple[Operator, ...], AfterValidator(_as_set)]
Precision = Literal["fp32", "static_quant", "dynamic_quant"]


class Xnnpack(Attrs):
    """XNNPACK: floating-point and quantized operators on the CPU."""

    type: Literal["xnnpack"]

    precisions: Annotated[tuple[Precision, ...], AfterValidator(_as_set)] = Field(
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


Backends = tuple[Annotated[Xnnpack | Portable, Discriminator("type")], ...]


@dataclass(frozen=True, slots=True)
class Kind:
    """What deciding and compiling depend on. What stands in neither tuple is in no key.

    partition  attributes that decide which nodes it takes
    compile    attributes that decide what is made of a partition
    device     facts of the device (fields of DeviceTarget) that decide what is made of a partition
    tools      distributions whose versions decide what is made of a partition; the compile step is compile_<kind>
    """

    partition: tuple[str, ...] = ()
    compile: tuple[str, ...] = ()
    device: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()


KINDS: Mapping[str, Kind] = {
    "xnnpack": Kind(
        partition=("precisions", "per_op_mode", "exclude_ops", "force_non_static_weights_for_f32_linear"),
        tools=("executorch", "sympy", "torch", "torchao"),
    ),
    "portable": Kind(partition=("ops",)),
}
