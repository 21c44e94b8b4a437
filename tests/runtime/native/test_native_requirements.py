"""The requirements of a program that a machine does not meet, checked before anything of it is loaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.native.test_native_tensorrt import FAMILIES, error, times_3_plus_1

RTX, EIGHT = FAMILIES["rtx_1"][0], FAMILIES["8"][0]
SEARCHED = "beside the runtime, in LD_LIBRARY_PATH or in the system's folders"
FOR_GPU = {"arch": "x86_64", "os": "linux", "compute_capabilities": ["8.9", "9.0"]}

# name: (program, device in its manifest, library that is missing, environment, the problem)
CASES: Mapping[str, tuple[str, Any, str, dict[str, str], str]] = {
    "no library": (
        "headed_rtx", None, RTX, {},
        f"the engine needs TensorRT-RTX 1.6.1: found no {RTX} {SEARCHED}, but TensorRT 8.6.0 (libnvinfer.so.8), "
        "TensorRT 10.16.0 (libnvinfer.so.10), TensorRT 11.1.0 (libnvinfer.so.11)",
    ),
    "other major version": (
        "headed_8", None, EIGHT, {},
        f"the engine needs TensorRT 8.6.1: found no {EIGHT} or libnvinfer_lean.so.8 {SEARCHED}, but TensorRT-RTX 1.6.1 "
        "(libtensorrt_rtx.so.1), TensorRT 10.16.0 (libnvinfer.so.10), TensorRT 11.1.0 (libnvinfer.so.11)",
    ),
    "older version": (
        "headed_8", None, "", {"FAKE_TENSORRT_VERSION": "8600"},
        "found TensorRT 8.6.0 (libnvinfer.so.8); expected version 8.6.1 or newer",
    ),
    "unknown version": (
        "headed_8", None, "", {"FAKE_TENSORRT_VERSION": "8703"},
        "libnvinfer.so.8 is version 8.7.3; expected 8.5.3 to 8.6.99, or a flavour that `runtime/build.py --tensorrt` "
        "compiles with its headers",
    ),
    "compute capability": (
        "headed_rtx", FOR_GPU, "", {"FAKE_CUDA_CAPABILITY": "8.6"},
        "cuda:0 has compute capability 8.6; the engine was built for 8.9 or 9.0",
    ),
    "old driver": (
        "headed_rtx", FOR_GPU, "", {"FAKE_CUDA_DRIVER": "12040"},
        "the NVIDIA driver here supports CUDA 12.4 only; expected driver 580 or newer, for CUDA 13",
    ),
    "no driver": (
        "headed_rtx", FOR_GPU, "", {"FAKE_CUDA_DRIVER": "0"},
        "there is no NVIDIA driver here; expected driver 580 or newer",
    ),
    "no GPU": (
        "headed_rtx", FOR_GPU, "", {"FAKE_CUDA_GPUS": "0"},
        "cuda:0 does not exist here; this machine has 0 CUDA devices",
    ),
    "other architecture": (
        "headed_rtx", {**FOR_GPU, "arch": "aarch64"}, "", {}, "the program is for aarch64; this runtime is for x86_64",
    ),
}  # fmt: skip


@pytest.fixture
def program(trt_programs: dict[str, Path], seal_copy: Callable[..., Path], tmp_path: Path) -> Callable[..., Path]:
    """Return a program, with a manifest that names its device if there is one."""

    def made(name: str, device: Any) -> Path:
        if device is None:
            return trt_programs[name]
        return seal_copy(trt_programs[name], tmp_path / "sealed.pte", device=device)

    return made


@pytest.mark.parametrize("case", CASES)
def test_describe_states_each_unmet_requirement_in_one_line(
    fake_gpus: Any, program: Callable[..., Path], x: Path, case: str
) -> None:
    name, device, missing, environment, problem = CASES[case]
    path = program(name, device)
    if missing:
        (fake_gpus.plugins / missing).unlink()
    # The environment gives all fake libraries one version.
    for library, _ in FAMILIES.values() if "FAKE_TENSORRT_VERSION" in environment else ():
        if library != EIGHT:
            (fake_gpus.plugins / library).unlink()
    done = fake_gpus("modelbuild-run", path, "--describe", **environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == f"  this machine cannot run it: {problem}"
    assert done.stdout.count("cannot run") == 1
    told = fake_gpus("modelbuild-run", path, "--describe", "--json", **environment).stdout
    assert json.loads(told)["unmet"] == [problem]

    # The Python package reports the same lines.
    code = "import sys, modelbuild_runtime as m; print(m.load(sys.argv[1], runtime=sys.argv[2]).unmet_requirements())"
    command = [sys.executable, "-c", code, str(path), str(fake_gpus.root)]
    plain = {"PATH": os.environ["PATH"]}
    python = subprocess.run(command, env={**plain, **environment}, capture_output=True, text=True, check=False)
    assert (python.returncode, python.stdout) == (0, f"{[problem]}\n"), python.stderr

    if case in ("no library", "other major version", "older version", "unknown version"):
        assert problem[:150] in error(fake_gpus, path, x, **environment)  # ExecuTorch's log cuts longer lines


@pytest.mark.parametrize("name", ["headed_8", "headed_rtx"])
def test_a_program_whose_requirements_are_met_runs(
    fake_gpus: Any, program: Callable[..., Path], x: Path, name: str
) -> None:
    path = program(name, FOR_GPU)
    met = {"FAKE_CUDA_CAPABILITY": "9.0", "FAKE_CUDA_DRIVER": "13020"}
    if name == "headed_8":
        for library, _ in FAMILIES.values():
            if library != EIGHT:
                (fake_gpus.plugins / library).unlink()
        met["FAKE_TENSORRT_VERSION"] = "8601"
    described = fake_gpus("modelbuild-run", path, "--describe", "--json", **met)
    assert json.loads(described.stdout)["unmet"] == []
    assert times_3_plus_1(fake_gpus, path, x, **met) == []


def test_cuda_parts_require_a_driver_and_a_gpu_of_their_capability(
    fake_gpus: Any, cuda_programs: dict[str, Path], seal_copy: Callable[..., Path], tmp_path: Path
) -> None:
    path = seal_copy(cuda_programs["planned"], tmp_path / "sealed.pte", device=FOR_GPU)

    def unmet(**environment: str) -> list[str]:
        done = fake_gpus("modelbuild-run", path, "--describe", "--json", **environment)
        found: list[str] = json.loads(done.stdout)["unmet"]
        return found

    assert unmet(FAKE_CUDA_CAPABILITY="9.0") == []
    other = "no GPU here has a compute capability that the program was built for; found 7.5, 7.5"
    assert unmet(FAKE_CUDA_CAPABILITY="7.5") == [other]
    assert unmet(FAKE_CUDA_GPUS="0") == ["cuda:0 does not exist here; this machine has 0 CUDA devices"]
    assert unmet(FAKE_CUDA_DRIVER="0") == ["there is no NVIDIA driver here; expected driver 580 or newer"]
