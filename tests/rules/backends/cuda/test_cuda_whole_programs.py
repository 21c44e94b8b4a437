"""Whole programs of several backends, compiled for a GPU and run without one by the C++ runtime, against eager mode."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cuda")]


def check(found: dict[str, Any], launches: int) -> None:
    assert found["largest"] > 0.5  # of the expected values: they are no zeros
    assert found["error"] <= found["allowed"]
    assert found["launches"] >= launches


@pytest.mark.exhaustive
def test_xnnpack_and_cuda_by_turns(run_whole: Any, lowering: Any) -> None:
    """XNNPACK, CUDA, XNNPACK, CUDA: tensors go there and back."""
    check(run_whole("both", [lowering.XNNPACK, lowering.cuda(), lowering.PORTABLE]), 2)


@pytest.mark.exhaustive
def test_portable_kernels_after_cuda(run_whole: Any, lowering: Any) -> None:
    """Operators with sizes that depend on values run on the CPU, with results of CUDA as inputs."""
    check(run_whole("select", [lowering.cuda(data_dependent_ops="fallback"), lowering.PORTABLE]), 1)


@pytest.mark.exhaustive
def test_a_detector_in_one_library(run_whole: Any, lowering: Any) -> None:
    """Sizes depend on values, and differ between calls; nothing is left to portable kernels."""
    check(run_whole("detector", [lowering.cuda()]), 2)


@pytest.mark.parametrize(
    "name",
    [
        "suppression",
        *(
            pytest.param(name, marks=pytest.mark.exhaustive)
            for name in ("select", "keypoints", "distinct", "regions", "rows", "counted")
        ),
    ],
)
def test_sizes_that_depend_on_values(name: str, run_whole: Any, lowering: Any) -> None:
    check(run_whole(name, [lowering.cuda()]), 1)


@pytest.mark.exhaustive
def test_a_detector_that_finds_nothing(run_whole: Any, lowering: Any) -> None:
    assert run_whole("nothing_found", [lowering.cuda()])["error"] == 0


@pytest.mark.exhaustive
def test_sizes_of_other_backends(run_whole: Any, lowering: Any) -> None:
    """A size that depends on values is an input of the library."""
    check(run_whole("select", [lowering.cuda(exclude_ops=["aten.nonzero.default"]), lowering.PORTABLE]), 2)


@pytest.mark.exhaustive
def test_control_flow_between_partitions(run_whole: Any, lowering: Any) -> None:
    """Both branches run: CUDA computes the condition and the operators after it."""
    check(run_whole("branch", [lowering.cuda(), lowering.PORTABLE]), 2)
