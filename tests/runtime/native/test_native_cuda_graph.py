"""Repeated runs as CUDA graphs: captured once, launched afterwards, and refused if a part cannot be captured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

RETURNED = "end blocks=0 streams=0 events=0 graphs=0"


@pytest.mark.parametrize("stream", ["0", "1"], ids=["own stream", "stream of the caller"])
@pytest.mark.parametrize("delegate", ["trt_programs", "cuda_programs"])
def test_the_second_run_is_recorded_and_later_ones_are_launched(
    fake_gpus: Any, request: pytest.FixtureRequest, delegate: str, stream: str
) -> None:
    program = request.getfixturevalue(delegate)["device"]
    done = fake_gpus("contract_check", "graph", program, stream)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "recorded=2 replayed=12",
        "staged_in=0 staged_out=0 copied_in=0 copied_out=0",
    ]
    assert fake_gpus.calls("cudaStreamBeginCapture") == ["cudaStreamBeginCapture device=0 bytes=0 thread-local"] * 2
    assert len(fake_gpus.calls("cudaGraphInstantiate")) == 2
    assert len(fake_gpus.calls("cudaGraphLaunch")) == 14
    assert fake_gpus.left_over() == RETURNED


def test_two_parts_are_one_graph(fake_gpus: Any, cuda_programs: dict[str, Path], x: Path) -> None:
    flags = ["--device-io", "--cuda-graph", "--warmup=2", "--repeat=4", "--json", f"--output-dir={x.parent}"]
    done = fake_gpus("modelbuild-run", cuda_programs["chain"], f"--input=input0={x}", *flags)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["cuda_graphs"] == {"recorded": 1, "replayed": 5}
    np.testing.assert_array_equal(np.load(x.parent / "output0.npy"), (np.load(x) * 3 + 1) * 3 + 1)
    (instantiated,) = fake_gpus.calls("cudaGraphInstantiate")
    assert "bytes=4 " in instantiated  # two kernels, and two copies to the requested outputs
    assert len(fake_gpus.calls("cudaGraphLaunch")) == 6
    text = fake_gpus("modelbuild-run", cuda_programs["chain"], f"--input=input0={x}", *flags[:4]).stdout
    assert "CUDA graphs: 1 recorded, 5 runs replayed\n" in text
    assert fake_gpus.left_over() == RETURNED


@pytest.mark.parametrize(
    ("delegate", "name", "on_device", "first", "second"),
    [
        ("trt_programs", "host", "0", "input 'input0' lies on the host", ""),
        ("trt_programs", "planned", "0", "the CPU runs et_copy::_d2h_copy.out, et_copy::_h2d_copy.out", ""),
        ("trt_programs", "device", "0", "input 'input0' lies on the host", ""),
        ("trt_programs", "waits", "1", "ran", "operation failed due to a previous error during capture"),
        ("cuda_programs", "sorting_device", "1", "ran", "it sorts with Thrust, which allocates memory"),
        ("cuda_programs", "reading_device", "1", "ran", "it reads a size that depends on values from the GPU"),
    ],
)
def test_operations_that_no_graph_contains_are_errors(
    fake_gpus: Any, request: pytest.FixtureRequest, delegate: str, name: str, on_device: str, first: str, second: str
) -> None:
    program = request.getfixturevalue(delegate)[name]
    done = fake_gpus("contract_check", "no_graph", program, on_device)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert first in said[0]
    assert (second or first) in said[1]
    assert said[-1] == "recorded=0 replayed=0"
    assert fake_gpus.left_over() == RETURNED


@pytest.mark.parametrize("call", ["cudaGraphInstantiate:1", "cudaGraphLaunch:1", "cudaGraphLaunch:2"])
def test_failures_leave_nothing(fake_gpus: Any, trt_programs: dict[str, Path], call: str) -> None:
    done = fake_gpus("contract_check", "graph", trt_programs["device"], "0", FAKE_CUDA_FAIL=call)
    assert done.returncode == 1
    assert "error: " in done.stderr
    assert "out of memory" in done.stderr or "unspecified launch failure" in done.stderr
    assert fake_gpus.left_over() == RETURNED
