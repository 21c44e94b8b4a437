"""The compile step of each backend."""

from __future__ import annotations

from collections.abc import Callable

from modelbuild.step import Step, StepError


def compile_step(kind: str) -> Callable[[Step], None]:
    """What runs as the step `compile_<kind>`."""
    if kind == "xnnpack":
        from modelbuild_rules.steps import compile_xnnpack

        return compile_xnnpack.run
    if kind == "tensorrt":
        from modelbuild_rules.steps import compile_tensorrt

        return compile_tensorrt.run
    if kind == "cuda":
        from modelbuild_rules.steps import compile_cuda

        return compile_cuda.run
    raise StepError(f"no backend '{kind}'")
