"""The runtime's own sources and the fakes, compiled with the compilers' sanitizers: memory and undefined behaviour, and
races between threads. ExecuTorch's libraries and the shims are as they come."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("sanitizers")]

# A mode of contract_check, the fixture and the name of a program, further arguments, and the exit code.
RUNS = [
    ("threads", "trt_programs", "host", ("6", "20"), 0),
    ("threads", "trt_programs", "planned", ("6", "20"), 0),
    ("threads", "cuda_programs", "host", ("6", "20"), 0),
    ("threads", "cuda_programs", "planned", ("6", "20"), 0),
    ("device", "trt_programs", "device", ("0", "1"), 0),
    ("device", "trt_programs", "device", ("1", "1"), 1),
    ("device", "cuda_programs", "device", ("0", "1"), 0),
    ("stream", "trt_programs", "device", ("0",), 0),
    ("stream", "cuda_programs", "device", ("1",), 1),
    ("graph", "trt_programs", "device", ("0",), 0),
    ("graph", "cuda_programs", "device", ("1",), 0),
    ("no_graph", "trt_programs", "waits", ("1",), 0),
    ("destroy", "trt_programs", "device", ("0",), 0),
    ("destroy", "cuda_programs", "device", ("0",), 0),
    ("changing", "trt_programs", "device", (), 0),
    ("changing", "cuda_programs", "device", (), 0),
    ("batches", "trt_programs", "profiles", ("3", "8", "1", "5"), 0),
    ("host", "trt_programs", "fails", (), 1),
    ("host", "trt_programs", "shape", (), 1),
    ("host", "cuda_programs", "transposed", (), 1),
    ("host", "trt_programs", "two", (), 1),  # the sine between makes it another function
    ("host", "trt_programs", "nonsense", (), 1),
    ("host", "trt_programs", "absent", (), 1),
    ("host", "cuda_programs", "broken", (), 1),
    ("host", "cuda_programs", "theirs", (), 1),
]


def test_the_c_api_refuses_null_and_sizes_that_lie(
    sanitized: Path, sanitizer_options: dict[str, str], samples: dict[str, Any], broken_program: Path
) -> None:
    done = subprocess.run(
        [sanitized / "bin/c_api_check", samples["counter"].path, broken_program],
        env=sanitizer_options, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 failures\n", "")


def test_the_device_contract(
    sanitized: Path,
    sanitizer_options: dict[str, str],
    lay_out_fakes: Callable[[Path], Any],
    trt_programs: dict[str, Path],
    cuda_programs: dict[str, Path],
) -> None:
    fake_gpus = lay_out_fakes(sanitized)
    programs = {"trt_programs": trt_programs, "cuda_programs": cuda_programs}
    for mode, delegate, name, arguments, code in RUNS:
        done = fake_gpus("contract_check", mode, programs[delegate][name], *arguments, **sanitizer_options)
        what = f"{mode} {delegate} {name}"
        assert "Sanitizer" not in done.stderr, f"{what}\n{done.stderr}"
        assert "runtime error" not in done.stderr, f"{what}\n{done.stderr}"
        assert done.returncode == code, f"{what}\n{done.stderr}"
