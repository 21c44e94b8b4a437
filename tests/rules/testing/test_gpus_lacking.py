"""The GPU requirements of a program that a machine does not meet."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from modelbuild_rules.testing.steps.parity import gpus


@pytest.mark.parametrize(
    ("here", "count", "index", "capabilities", "lacking"),
    [
        (["9.0"], 1, 0, ["9.0"], ""),
        (["8.6", "9.0"], 1, 1, ["9.0"], ""),
        (["8.9"], 1, 0, ["8.6", "8.9"], ""),
        (["8.9"], 1, 0, [], ""),
        (["8.9"], 1, 0, ["8.6"], "needs a GPU of compute capability 8.6, and GPU 0 here has 8.9"),
        (["9.0", "8.9"], 1, 1, ["9.0"], "needs a GPU of compute capability 9.0, and GPU 1 here has 8.9"),
        ([], 1, 0, ["9.0"], "needs a GPU of compute capability 9.0, and there is none here (no driver)"),
        ([], 1, 0, ["8.6", "8.9"], "needs a GPU of compute capability 8.6 or 8.9, and there is none here (no driver)"),
        ([], 1, 0, [], "needs a GPU, and there is none here (no driver)"),
        (["9.0"], 2, 0, ["9.0"], "needs 2 GPUs, and there is 1 here"),
        (["9.0", "9.0"], 1, 2, ["9.0"], "needs 3 GPUs, and there are 2 here"),
        (
            ["9.0"],
            0,
            0,
            ["9.0"],
            "needs a GPU of compute capability 9.0, and the test requests none; expected gpus = 1",
        ),
    ],
)
def test_missing_gpus(
    monkeypatch: pytest.MonkeyPatch, here: list[str], count: int, index: int, capabilities: list[str], lacking: str
) -> None:
    monkeypatch.setattr(gpus, "_query", lambda cudart: {"capabilities": here, "problem": "no driver"})
    wanted = {"count": count, "index": index, "capabilities": capabilities}
    assert gpus.missing_gpu(Path("libcudart.so.13"), wanted) == lacking


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """Return a CUDA runtime with two GPUs, of compute capabilities 8.6 and 8.7; with none if NONE is in the
    environment."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    assert compiler is not None
    source, made = tmp_path / "cudart.c", tmp_path / "libcudart.so"
    source.write_text("""
        #include <stdlib.h>
        int cudaGetDeviceCount(int* count) { *count = 2; return getenv("NONE") ? 100 : 0; }
        int cudaDeviceGetAttribute(int* value, int what, int gpu) {
            *value = what == 75 ? 8 : what == 76 ? 6 + gpu : -1;
            return 0;
        }
        const char* cudaGetErrorString(int error) { return error == 100 ? "no CUDA-capable device" : "?"; }
    """)
    subprocess.run([compiler, "-shared", "-fPIC", source, "-o", made], check=True)
    return made


def test_gpus_are_asked_for_by_cudas_runtime(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = {"count": 1, "index": 1, "capabilities": ["8.7"]}
    assert gpus.missing_gpu(library, wanted) == ""
    said = gpus.missing_gpu(library, {**wanted, "capabilities": ["9.0"]})
    assert said == "needs a GPU of compute capability 9.0, and GPU 1 here has 8.7"
    monkeypatch.setenv("NONE", "1")
    said = gpus.missing_gpu(library, wanted)
    assert said == "needs a GPU of compute capability 8.7, and there is none here (no CUDA-capable device)"


def test_a_library_that_cannot_be_loaded_is_no_gpu(tmp_path: Path) -> None:
    said = gpus.missing_gpu(tmp_path / "nothing.so", {"count": 1, "index": 0, "capabilities": []})
    assert said == "needs a GPU, and there is none here (the query of GPUs exited with status 1)"
