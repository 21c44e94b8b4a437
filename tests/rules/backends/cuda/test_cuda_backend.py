"""The effects of a `cuda` table and of a device, and the devices that are refused before any work."""

from __future__ import annotations

from typing import Any

import pytest

from modelbuild_rules.backends.cuda.backend import CAPABILITIES, CUDA, Cuda
from modelbuild_rules.backends.cuda.steps.kernels.device import GPUS, number

ATTRIBUTES: dict[str, Any] = Cuda(type="cuda").model_dump(mode="json")


def facts(*capabilities: str, **others: Any) -> dict[str, Any]:
    return {
        **{"arch": "x86_64", "os": "linux", "gpu": 0, "min_glibc": None},
        **others,
        "compute_capabilities": capabilities,
    }


def test_a_gpu_is_stated_for_every_capability() -> None:
    assert {number(name) for name in CAPABILITIES} == set(GPUS)


@pytest.mark.parametrize(
    ("capabilities", "problem"),
    [
        ((), 'CUDA needs a device with compute_capabilities; expected one such as ["8.9"]'),
        (("7.5",), "compute capability 7.5 is not supported; expected one of 8.0, 8.6, "),
        (("9.0", "12.0"), "code for compute capability 9.0 runs only there; expected it alone, or with one below 9.0"),
    ],
)
def test_a_device_that_it_cannot_serve_is_refused(capabilities: tuple[str, ...], problem: str) -> None:
    assert CUDA.problem(ATTRIBUTES, facts(*capabilities)).startswith(problem)


def test_candidates_are_timed_for_one_compute_capability() -> None:
    attributes = {**ATTRIBUTES, "candidates": 8}
    assert CUDA.problem(attributes, facts("8.6")) == ""
    assert CUDA.problem(attributes, facts("8.6", "8.9")) == (
        "candidates are timed for one compute capability; expected a device with one"
    )


def test_candidates_make_one_more_output() -> None:
    made = [CUDA.sidecar({**ATTRIBUTES, "candidates": number}) for number in (0, 8)]
    assert [each and each.name for each in made] == [None, "tuning.pyz"]


def test_one_candidate_is_refused() -> None:
    found = [CUDA.contradiction(Cuda(type="cuda", candidates=number)) for number in (0, 1, 2)]
    assert [each and each[0] for each in found] == [None, "candidates", None]


@pytest.mark.parametrize(
    ("attribute", "value"), [("candidates", 8), ("precision", "tf32")], ids=lambda value: str(value)
)
def test_how_kernels_are_chosen_decides_what_is_compiled_and_not_what_is_taken(attribute: str, value: object) -> None:
    other = {**ATTRIBUTES, attribute: value}
    assert CUDA.compile_attributes(other, facts("8.6")) != CUDA.compile_attributes(ATTRIBUTES, facts("8.6"))
    assert CUDA.partition_attributes(other, facts("8.6")) == CUDA.partition_attributes(ATTRIBUTES, facts("8.6"))


@pytest.mark.parametrize("capabilities", [("8.6",), ("9.0",), ("8.9", "8.6"), ("8.6", "9.0", "12.0")])
def test_others_are_not(capabilities: tuple[str, ...]) -> None:
    assert CUDA.problem(ATTRIBUTES, facts(*capabilities)) == ""


def test_the_order_of_capabilities_decides_nothing() -> None:
    one, other = (CUDA.compile_attributes(ATTRIBUTES, facts(*each)) for each in (("8.9", "8.6"), ("8.6", "8.9")))
    assert one == other
    assert (one["capabilities"], one["target"]) == ([86, 89], "x86_64-linux-gnu.2.28")


def test_the_machine_decides_what_is_linked() -> None:
    orin = facts("8.7", arch="aarch64", min_glibc="2.31")
    assert CUDA.compile_attributes(ATTRIBUTES, orin)["target"] == "aarch64-linux-gnu.2.31"
    prerequisite = CUDA.prerequisite(ATTRIBUTES, orin)
    assert prerequisite is not None
    assert prerequisite.params == {"target": "aarch64-linux-gnu.2.31"}


def test_the_device_decides_where_data_is() -> None:
    assert CUDA.partition_attributes(ATTRIBUTES, facts("8.6", gpu=1))["target_device"] == "cuda:1"
    assert CUDA.partition_attributes({**ATTRIBUTES, "gpu": 2}, facts("8.6", gpu=1))["target_device"] == "cuda:2"


def test_compilation_does_not_depend_on_the_choice_of_nodes() -> None:
    other = {**ATTRIBUTES, "exclude_ops": ["aten.gelu.default"], "min_block_size": 9}
    assert CUDA.compile_attributes(other, facts("8.6")) == CUDA.compile_attributes(ATTRIBUTES, facts("8.6"))
    assert CUDA.partition_attributes(other, facts("8.6")) != CUDA.partition_attributes(ATTRIBUTES, facts("8.6"))
