"""Timing kernels with CUDA's driver only: with a fake driver, and without one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from modelbuild.step import StepError
from modelbuild_rules.backends.cuda.steps.kernels import driver

TIME = """
from modelbuild_rules.backends.cuda.steps.kernels.driver import CardProcess, Launch
card = CardProcess()
print(card.name, card.capability)
arguments = (("*fp32", 64), ("i32", 7), ("*i64", 16), ("*bf16", 2))
with card.exclusive():
    print(round(card.time(Launch("kernel", b"\\x7fELF", (3, 2, 1), 128, 2048, arguments)), 3))
"""


def run(folder: Path, **environment: str) -> tuple[list[str], str]:
    """Return the script's output, and the last line of its errors."""
    done = subprocess.run(
        [sys.executable, "-c", TIME],
        env={**os.environ, "LD_LIBRARY_PATH": str(folder), **environment},
        capture_output=True,
        text=True,
    )
    return done.stdout.splitlines(), (done.stderr.strip().splitlines() or [""])[-1]


def test_a_kernel_is_launched_with_its_arguments_and_timed(timed_driver: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    printed, problem = run(timed_driver, FAKE_LOG=str(log), FAKE_ARGUMENTS="4")
    assert (printed, problem) == (["Fake GPU 0 90", "38.0"], "")
    lines = log.read_text().splitlines()
    assert set(lines) == {"kernel 3 2 1 128 2048 *3c 7 *00 *3c"}  # buffers of numbers that are small, of indices: zeros
    assert len(lines) == driver.RUNS + 2


@pytest.mark.parametrize(
    ("environment", "problem"),
    [
        (
            {"FAKE_DEVICES": "0"},
            'build_on = "gpu" needs an NVIDIA GPU; this machine has 0; expected a machine with one',
        ),
        ({"FAKE_FAILS": "cuInit"}, "needs an NVIDIA GPU; cuInit failed: a failure that was asked for (701)"),
        ({"FAKE_FAILS": "cuLaunchKernel"}, "DriverError: cuLaunchKernel failed: a failure that was asked for (701)"),
    ],
)
def test_what_fails_is_told(timed_driver: Path, environment: dict[str, str], problem: str) -> None:
    assert problem in run(timed_driver, **environment)[1]


def test_a_machine_without_a_driver_is_told(tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").write_text("no library")
    assert "needs an NVIDIA GPU and its driver; libcuda.so.1 can't be loaded here" in run(tmp_path)[1]


def test_a_machine_without_the_bindings_is_told_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(StepError, match=r"'cuda-bindings' is not installed; install modelbuild\[cuda\]$"):
        driver.Card()
