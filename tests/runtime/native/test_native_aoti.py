"""The CUDA delegate: libraries in AOTInductor's form over the real shims, on a fake CUDA runtime."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

RETURNED = "end blocks=0 streams=0 events=0 graphs=0"


def run(fake_gpus: Any, program: Path, x: Path, *flags: str) -> dict[str, Any]:
    done = fake_gpus("modelbuild-run", program, f"--input=input0={x}", f"--output-dir={x.parent}/out", "--json", *flags)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    report: dict[str, Any] = json.loads(done.stdout)
    report["y"] = np.load(report["outputs"][0]["path"])
    return report


def test_runs_in_planned_device_memory(fake_gpus: Any, cuda_programs: dict[str, Path], x: Path) -> None:
    report = run(fake_gpus, cuda_programs["planned"], x, "--repeat=5")
    np.testing.assert_array_equal(report["y"], np.load(x) * 3 + 1)
    assert report["transfers"] == {"staged_in": 0, "staged_out": 0, "copied_in": 128, "copied_out": 128}
    assert fake_gpus.left_over() == RETURNED


def test_keeps_the_gpus_memory_between_runs(fake_gpus: Any, cuda_programs: dict[str, Path], x: Path) -> None:
    run(fake_gpus, cuda_programs["second"], x, "--repeat=5")
    assert fake_gpus.calls("cudaMemPoolSetAttribute") == [f"cudaMemPoolSetAttribute device=1 bytes={2**64 - 1} "]
    assert fake_gpus.calls("cudaMemPoolTrimTo") == ["cudaMemPoolTrimTo device=1 bytes=0 "]


def test_runs_on_the_callers_device_memory_and_stream(fake_gpus: Any, cuda_programs: dict[str, Path]) -> None:
    done = fake_gpus("contract_check", "device", cuda_programs["device"], "0", "1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == ["staged_in=0 staged_out=0 copied_in=0 copied_out=0", "staging lines: 0"]
    done = fake_gpus("contract_check", "stream", cuda_programs["device"], "0")
    assert done.stdout.splitlines() == ["before the wait: not there", "after the wait: there"], done.stderr
    assert fake_gpus.left_over() == RETURNED


def test_runs_on_the_gpu_that_it_was_compiled_for(fake_gpus: Any, cuda_programs: dict[str, Path], x: Path) -> None:
    report = run(fake_gpus, cuda_programs["second"], x)
    np.testing.assert_array_equal(report["y"], np.load(x) * 3 + 1)
    assert {line.split()[1] for line in fake_gpus.calls("cudaMalloc")} == {"device=1"}
    done = fake_gpus("modelbuild-run", cuda_programs["second"], f"--input=input0={x}", gpus=1)
    assert done.returncode == 1
    assert "its activations lie on cuda:1, but this machine has 1 CUDA device" in done.stderr


def test_several_libraries_in_a_program_and_in_a_process(
    fake_gpus: Any, cuda_programs: dict[str, Path], x: Path
) -> None:
    report = run(fake_gpus, cuda_programs["two"], x)
    np.testing.assert_allclose(report["y"], np.sin(np.load(x) * 3 + 1) * 3 + 1, atol=1e-5)
    assert fake_gpus.left_over() == RETURNED
    done = fake_gpus("contract_check", "threads", cuda_programs["planned"], "4", "10")
    assert done.returncode == 0, done.stderr
    done = fake_gpus("contract_check", "destroy", cuda_programs["device"], "0")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "gone"), done.stderr
    assert fake_gpus.left_over() == RETURNED


def test_a_constant_may_be_changed(fake_gpus: Any, cuda_programs: dict[str, Path], x: Path) -> None:
    report = run(fake_gpus, cuda_programs["state"], x, "--repeat=2")
    np.testing.assert_array_equal(report["y"], np.load(x) * 3 + 1)
    assert fake_gpus.left_over() == RETURNED


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("damaged_list", "its list of constants is damaged: 'w cuda 6 1'"),
        ("lacking_list", "neither the program nor its .ptd, if any, has the data 'others'"),
        ("longer_list", "the compiled library does not start on cuda:0"),
        ("transposed", "output 0 has another size or layout than the program's memory for it"),
    ],
)
def test_a_library_that_does_not_fit_its_program_is_an_error(
    fake_gpus: Any, cuda_programs: dict[str, Path], x: Path, name: str, problem: str
) -> None:
    done = fake_gpus("modelbuild-run", cuda_programs[name], f"--input=input0={x}")
    assert done.returncode == 1
    assert problem in done.stderr
    assert fake_gpus.left_over() == RETURNED


def test_leaves_no_file_behind(fake_gpus: Any, cuda_programs: dict[str, Path], x: Path, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir(mode=0o500)  # writing there would fail, too
    done = fake_gpus("modelbuild-run", cuda_programs["planned"], f"--input=input0={x}", TMPDIR=str(scratch))
    assert done.returncode == 0, done.stderr
    assert list(scratch.iterdir()) == []


def test_invalid_libraries(fake_gpus: Any, cuda_programs: dict[str, Path], x: Path) -> None:
    done = fake_gpus("modelbuild-run", cuda_programs["broken"], f"--input=input0={x}")
    assert done.returncode == 1
    assert "a compiled library cannot be loaded" in done.stderr
    for name, size in (("keyless", 9), ("older", 15), ("theirs", 25)):
        done = fake_gpus("modelbuild-run", cuda_programs[name], f"--input=input0={x}")
        assert done.returncode == 1
        problem = f"a CUDA delegate's blob was not built by modelbuild, or is damaged ({size} bytes, for 'cuda:0')"
        assert problem in done.stderr
    (fake_gpus.plugins / "libaoti_cuda_shims.so").unlink()
    done = fake_gpus("modelbuild-run", cuda_programs["planned"], f"--input=input0={x}")
    assert done.returncode == 1
    assert "libaoti_cuda_shims.so" in done.stderr
