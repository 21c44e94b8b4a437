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
    check(run_whole("select", [lowering.cuda(), lowering.PORTABLE]), 1)


@pytest.mark.exhaustive
def test_control_flow_between_partitions(run_whole: Any, lowering: Any) -> None:
    """Both branches run: CUDA computes the condition and the operators after it."""
    check(run_whole("branch", [lowering.cuda(), lowering.PORTABLE]), 2)
