"""Libraries compiled for a GPU, run without one: host code, shims, weights and the kernels' arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

from modelbuild_rules.backend_api.steps.elf import needs

REST = (
    *("mlp", "products", "mlp_dynamic", "mlp_fp16", "attention", "attention_fp16", "attention_dynamic", "vit", "cnn"),
    *("depthwise", "class_token"),
    *("convolutions", "convolutions_3d", "norms", "cache", "cell", "stream", "mixed", "topk", "sort", "sums"),
    *("attentions", "spectrum", "denoised", "larger", "resnet18"),
)
DATA_DEPENDENT = ("detector", "nothing_found", "suppression", "keypoints", "distinct", "regions", "rows", "counted")
COMPILED = ("attention_bf16", "mlp_bf16")  # run by benchmarks/gpu/cuda_programs.py on a GPU only

pytestmark = pytest.mark.xdist_group("cuda")


def check(name: str, programs: Mapping[str, Any], built: Callable[[str], Any], run: Callable[[Any], Any]) -> None:
    made = built(name)
    outputs, launches = run(made)
    assert launches >= len(made.calls)
    for got, expected in zip(outputs, made.expected, strict=True):
        for one, other in zip(got, expected, strict=True):
            assert one.dtype == other.dtype
            assert one.shape == other.shape
            torch.testing.assert_close(one, other, rtol=0, atol=programs[name].tolerance)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("name", REST)
def test_results_are_those_of_eager_mode(
    name: str, programs: Mapping[str, Any], built: Callable[[str], Any], run_emulated: Callable[[Any], Any]
) -> None:
    check(name, programs, built, run_emulated)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("name", COMPILED)
def test_others_are_compiled(name: str, built: Callable[[str], Any]) -> None:
    library = needs(built(name).folder / "library.so")
    assert "AOTInductorModelContainerRun" in library.defined
    assert library.glibc <= (2, 28)


def test_every_program_that_can_be_emulated_is(programs: Mapping[str, Any]) -> None:
    whole = {"both", "branch", "select", *DATA_DEPENDENT}  # by test_cuda_whole_programs.py
    assert {name for name, program in programs.items() if program.emulated} - whole == {*REST}
    assert {name for name, program in programs.items() if not program.emulated} == {*COMPILED}
