"""device_target: a kind of machine that programs are compiled for and run on."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from modelbuild.api import Attrs, Context, Dep, LabelOf, Provider, Size, rule
from modelbuild_rules.providers import DeviceTarget, Reached


def _matching(pattern: str, expected: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"'{text}' is not {expected}")
        return text

    return check


Capability = Annotated[
    str, AfterValidator(_matching(r"[0-9]{1,2}\.[0-9]", "a compute capability; expected one such as '8.6'"))
]
Glibc = Annotated[str, AfterValidator(_matching(r"2\.[0-9]{1,3}", "a version of glibc; expected one such as '2.31'"))]


class DeviceTargetAttrs(Attrs):
    """A kind of machine that programs are compiled for."""

    renamed: ClassVar[Mapping[str, str]] = {"compute_capability": "compute_capabilities", "cuda_index": "gpu"}

    arch: Literal["x86_64", "aarch64"]
    """The CPU's architecture."""

    compute_capabilities: tuple[Capability, ...] = ()
    """CUDA compute capabilities, such as ["8.6", "8.9"]; empty for a device without CUDA."""

    gpu: int = Field(default=0, ge=0, le=127)
    """Index of the device's GPU that runs the program."""

    memory: Size | None = None
    """Memory of the GPU, or of a machine without a GPU, such as "8GiB"."""

    min_glibc: Glibc | None = None
    """The oldest glibc for compiled libraries, such as "2.31"."""

    runners: tuple[Annotated[Dep, LabelOf(Reached)], ...] = ()
    """Ways to reach devices of this kind: a pool. `--runner` overrides them."""


EXAMPLE = """
[[device_target]]
name = "server"
arch = "x86_64"
compute_capabilities = ["8.9"]
"""


@rule(attrs=DeviceTargetAttrs, example=EXAMPLE)
def device_target(ctx: Context[DeviceTargetAttrs]) -> tuple[Provider, ...]:
    attrs = ctx.attrs
    if len(set(attrs.compute_capabilities)) != len(attrs.compute_capabilities):
        raise ctx.error("compute_capabilities", "a compute capability is listed twice; expected each once")
    if attrs.gpu and not attrs.compute_capabilities:
        raise ctx.error("gpu", "gpu is set on a device without CUDA; expected compute_capabilities as well")
    return (
        DeviceTarget(
            arch=attrs.arch,
            compute_capabilities=attrs.compute_capabilities,
            gpu=attrs.gpu,
            memory=attrs.memory if attrs.memory is None else int(attrs.memory),
            min_glibc=attrs.min_glibc,
            runners=tuple(ctx.provider(each, Reached).runner for each in attrs.runners),
        ),
    )
