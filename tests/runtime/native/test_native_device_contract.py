"""The device contract of docs/reference/gpu-runtime.md: the TensorRT delegate on a fake TensorRT and a fake CUDA."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import modelbuild_runtime

BYTES = 2 * 16 * 4
RETURNED = "end blocks=0 streams=0 events=0 graphs=0"


def run(fake_gpus: Any, program: Path, x: Path, *flags: str, **environment: str) -> tuple[dict[str, Any], list[str]]:
    """Run on x; the report, with the output under "y", and the log."""
    done = fake_gpus("modelbuild-run", program, f"--input=input0={x}", f"--output-dir={x.parent}/out", "--json",
                     "--log=info", *flags, **environment)  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    report["y"] = np.load(report["outputs"][0]["path"])
    return report, done.stderr.splitlines()


def staging(log: list[str]) -> list[str]:
    return [line for line in log if "stages host memory" in line]


def test_host_memory_is_staged_and_said_once(fake_gpus: Any, trt_programs: dict[str, Path], x: Path) -> None:
    report, log = run(fake_gpus, trt_programs["host"], x, "--repeat=20")
    np.testing.assert_array_equal(report["y"], np.load(x) * 3 + 1)
    assert report["transfers"] == {"staged_in": BYTES, "staged_out": BYTES, "copied_in": 0, "copied_out": 0}
    assert staging(log) == [
        "I TensorRT engine 0 of method forward on cuda:0 stages host memory: 128 bytes to the device and 128 back each"
        " call; give it device memory to avoid that"
    ]
    # 24 calls, each a copy there and one back, and two buffers for all of them.
    assert len(fake_gpus.calls("cudaMemcpyAsync")) == 48
    assert len(fake_gpus.calls("cudaMalloc")) == 2
    assert fake_gpus.left_over() == RETURNED


def test_planned_device_memory_is_used_in_place(fake_gpus: Any, trt_programs: dict[str, Path], x: Path) -> None:
    report, log = run(fake_gpus, trt_programs["planned"], x)
    np.testing.assert_array_equal(report["y"], np.load(x) * 3 + 1)
    assert report["transfers"] == {"staged_in": 0, "staged_out": 0, "copied_in": BYTES, "copied_out": BYTES}
    assert staging(log) == []
    assert fake_gpus.left_over() == RETURNED


def test_the_callers_device_memory_is_used_in_place(fake_gpus: Any, trt_programs: dict[str, Path]) -> None:
    done = fake_gpus("contract_check", "device", trt_programs["device"], "0", "1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        *["output on cuda:0, where it was asked for"] * 3,
        "staged_in=0 staged_out=0 copied_in=0 copied_out=0",
        "staging lines: 0",
    ]
    assert fake_gpus.calls("cudaMemcpyAsync") == []
    assert len(fake_gpus.calls("cudaMemcpy")) == 1 + 3  # the test's own
    assert fake_gpus.left_over() == RETURNED


def test_device_memory_where_the_program_has_its_own_is_refused(
    fake_gpus: Any, trt_programs: dict[str, Path], x: Path
) -> None:
    done = fake_gpus("modelbuild-run", trt_programs["host"], f"--input=input0={x}", "--device-io=0")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: input 'input0' lies on cuda:0, but the program plans memory of its own for it; lower it with"
        " alloc_graph_input=False\n"
    )


def test_device_io_goes_by_what_the_program_leaves_to_its_caller(
    fake_gpus: Any, trt_programs: dict[str, Path], x: Path
) -> None:
    report, log = run(fake_gpus, trt_programs["device"], x, "--device-io", "--repeat=2")
    np.testing.assert_array_equal(report["y"], np.load(x) * 3 + 1)
    assert report["transfers"] == {"staged_in": 0, "staged_out": 0, "copied_in": 0, "copied_out": 0}
    assert staging(log) == []
    for program in ("host", "planned"):
        done = fake_gpus("modelbuild-run", trt_programs[program], f"--input=input0={x}", "--device-io")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (
            "error: --device-io: the program keeps no input or output in device memory; build it with device_io ="
            " true\n"
        )


@pytest.mark.parametrize(
    ("program", "moved", "line"),
    [
        ("host", (BYTES, BYTES, 0, 0), "128 bytes to the device and 128 back, 256 of them staged by delegates"),
        ("planned", (0, 0, BYTES, BYTES), "128 bytes to the device and 128 back, 0 of them staged by delegates"),
        ("device", (0, 0, BYTES, 0), "128 bytes to the device and 0 back, 0 of them staged by delegates"),
        ("two", (2 * BYTES, 2 * BYTES, 0, 0), "256 bytes to the device and 256 back, 512 of them staged by"),
    ],
)
def test_descriptions_tell_what_a_run_moves(
    fake_gpus: Any, trt_programs: dict[str, Path], x: Path, program: str, moved: tuple[int, ...], line: str
) -> None:
    told = fake_gpus("modelbuild-run", trt_programs[program], "--describe", "--json").stdout
    described = modelbuild_runtime.load(trt_programs[program]).describe().to_json()
    assert json.loads(told) == {"version": 1, **described, "unmet": []}
    (method,) = json.loads(told)["methods"]
    assert tuple(method["moved_at_most"].values()) == moved
    text = fake_gpus("modelbuild-run", trt_programs[program], "--describe").stdout
    assert f"a run on host memory moves at most {line}" in text
    assert text == f"{modelbuild_runtime.load(trt_programs[program]).describe()}\n"
    report, _ = run(fake_gpus, trt_programs[program], x)
    assert report["transfers"] == method["moved_at_most"]


def test_outputs_that_nobody_gives_memory_for(fake_gpus: Any, trt_programs: dict[str, Path], x: Path) -> None:
    """Device memory that the runtime allocates once, and copies of host inputs."""
    done = fake_gpus("contract_check", "device", trt_programs["device"], "0", "0")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:3] == ["output on cuda:0"] * 3
    report, log = run(fake_gpus, trt_programs["device"], x, "--repeat=4")
    np.testing.assert_array_equal(report["y"], np.load(x) * 3 + 1)
    assert report["transfers"] == {"staged_in": 0, "staged_out": 0, "copied_in": BYTES, "copied_out": 0}
    assert staging(log) == []
    assert len(fake_gpus.calls("cudaMalloc")) == 2
    assert fake_gpus.left_over() == RETURNED


def test_the_engines_gpu_is_the_one_that_is_in_the_engine(
    fake_gpus: Any, trt_programs: dict[str, Path], x: Path
) -> None:
    report, log = run(fake_gpus, trt_programs["second"], x)
    np.testing.assert_array_equal(report["y"], np.load(x) * 3 + 1)
    assert "on cuda:1 stages host memory" in staging(log)[0]
    assert {line.split()[1] for line in fake_gpus.calls("cudaMalloc")} == {"device=1"}
    # Every change of the current GPU was undone.
    switches = [line.split()[-1] for line in fake_gpus.calls("cudaSetDevice")]
    assert switches == ["1", "0"] * (len(switches) // 2)


def test_memory_of_another_gpu_is_refused_whatever_the_metadata_say(
    fake_gpus: Any, trt_programs: dict[str, Path], x: Path
) -> None:
    done = fake_gpus("modelbuild-run", trt_programs["liar"], f"--input=input0={x}")
    assert done.returncode == 1
    assert "'x' lies on cuda:0, but this part runs on cuda:1; copy it there first" in done.stderr
    assert fake_gpus.left_over() == RETURNED

    done = fake_gpus("contract_check", "device", trt_programs["device"], "1", "1")
    assert done.returncode == 1
    assert "'x' lies on cuda:1, but this part runs on cuda:0; copy it there first" in done.stderr
    assert fake_gpus.left_over() == RETURNED


def test_a_gpu_that_is_not_there_is_named(fake_gpus: Any, trt_programs: dict[str, Path], x: Path) -> None:
    cases = [
        ("absent", 2, "built for cuda:7: cuda:7 does not exist here; this machine has 2 CUDA devices"),
        ("second", 1, "built for cuda:1: cuda:1 does not exist here; this machine has 1 CUDA device"),
        ("host", 0, "built for cuda:0: cuda:0 does not exist here; this machine has 0 CUDA devices"),
        ("planned", 0, "its activations lie on cuda:0, but this machine has 0 CUDA devices"),
    ]
    for program, gpus, reason in cases:
        done = fake_gpus("modelbuild-run", trt_programs[program], f"--input=input0={x}", gpus=gpus)
        assert (done.returncode, done.stdout) == (1, ""), done
        assert reason in done.stderr
        assert done.stderr.splitlines()[-1].startswith("error: ")
        assert fake_gpus.left_over() == RETURNED


def test_two_engines_say_it_once_each(fake_gpus: Any, trt_programs: dict[str, Path], x: Path) -> None:
    report, log = run(fake_gpus, trt_programs["two"], x, "--repeat=7")
    np.testing.assert_allclose(report["y"], np.sin(np.load(x) * 3 + 1) * 3 + 1, atol=1e-5)
    assert len(staging(log)) == 2
    assert "TensorRT engine 0 of method forward on cuda:0" in staging(log)[0]
    assert "TensorRT engine 1 of method forward on cuda:1" in staging(log)[1]
    assert fake_gpus.left_over() == RETURNED


def test_shapes_within_the_engines_profile(fake_gpus: Any, trt_programs: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    for batch in (2, 8, 5):
        np.save(path, np.full((batch, 16), batch, np.float32))
        report, _ = run(fake_gpus, trt_programs["dynamic"], path)
        np.testing.assert_array_equal(report["y"], np.full((batch, 16), batch * 3 + 1))
    np.save(path, np.zeros((1, 16), np.float32))
    done = fake_gpus("modelbuild-run", trt_programs["dynamic"], f"--input=input0={path}")
    assert done.returncode == 1
    assert "'x' has shape [1, 16], outside of the engine's profile [2, 16] to [8, 16]" in done.stderr


def test_threads(fake_gpus: Any, trt_programs: dict[str, Path]) -> None:
    done = fake_gpus("contract_check", "threads", trt_programs["host"], "6", "30")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "staging lines: 7"  # a program of each thread, and one for all
    assert fake_gpus.left_over() == RETURNED


def test_the_callers_stream_is_not_waited_for(fake_gpus: Any, trt_programs: dict[str, Path]) -> None:
    done = fake_gpus("contract_check", "stream", trt_programs["device"], "0")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["before the wait: not there", "after the wait: there"]
    assert len(fake_gpus.calls("cudaStreamSynchronize")) <= 2  # after loading, and the test's own
    assert fake_gpus.left_over() == RETURNED


@pytest.mark.parametrize("delegate", ["trt_programs", "cuda_programs"])
def test_host_memory_may_change_between_runs_on_the_callers_stream(
    fake_gpus: Any, request: pytest.FixtureRequest, delegate: str
) -> None:
    done = fake_gpus("contract_check", "changing", request.getfixturevalue(delegate)["device"])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["staged_in=0 staged_out=0 copied_in=128 copied_out=0"]
    assert fake_gpus.left_over() == RETURNED


def test_a_stream_of_another_gpu_is_refused(fake_gpus: Any, trt_programs: dict[str, Path]) -> None:
    done = fake_gpus("contract_check", "stream", trt_programs["device"], "1")
    assert done.returncode == 1
    assert "the caller's stream belongs to cuda:1, but the work is for cuda:0" in done.stderr


def test_programs_go_in_any_order(fake_gpus: Any, trt_programs: dict[str, Path]) -> None:
    done = fake_gpus("contract_check", "destroy", trt_programs["device"], "0")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "gone"), done.stderr
    assert fake_gpus.left_over() == RETURNED


@pytest.mark.parametrize(
    "call",
    ["cudaMalloc:1", "cudaMalloc:2", "cudaMemcpyAsync:1", "cudaMemcpyAsync:2", "cudaStreamSynchronize:1"],
)
@pytest.mark.parametrize("program", ["host", "planned", "device"])
def test_failures_of_cuda_are_told_and_leave_nothing(
    fake_gpus: Any, trt_programs: dict[str, Path], x: Path, program: str, call: str
) -> None:
    done = fake_gpus("modelbuild-run", trt_programs[program], f"--input=input0={x}", FAKE_CUDA_FAIL=call)
    happened = any(line.endswith(" fails") for line in fake_gpus.trace.read_text().splitlines())
    assert done.returncode == (1 if happened else 0), done.stderr
    if happened:
        assert any(
            text in done.stderr for text in ("out of memory", "illegal memory access", "unspecified launch failure")
        )
        assert done.stderr.splitlines()[-1].startswith("error: ")
    assert fake_gpus.left_over() == RETURNED
