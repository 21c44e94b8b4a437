"""The compilers of runtime/toolchain.py, and the wheels that runtime/sdk.lock pins."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path


def test_without_a_cross_compiler_one_line_names_the_package(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "build/bin").mkdir(parents=True)
    (tmp_path / "build/lib").mkdir()
    (tmp_path / "build/bin/modelbuild-run").touch()
    done = subprocess.run(
        [sys.executable, repository / "runtime/archive.py", "--arch=aarch64", f"--build={tmp_path}/build",
         f"--out={tmp_path}/out"],
        env={**os.environ, "PATH": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "error: no C++ compiler for aarch64 (aarch64-linux-gnu-g++); on Debian and Ubuntu: apt-get install"
        " g++-aarch64-linux-gnu\n"
    )
    assert not (tmp_path / "out").exists()


def test_the_cuda_runtime_is_of_the_version_of_its_headers(repository: Path) -> None:
    """Headers come from requirements.lock, the library for each architecture from sdk.lock."""
    pin = re.compile(r"^nvidia-cuda-runtime==(\S+)", re.MULTILINE)
    (library,) = pin.findall((repository / "runtime/sdk.lock").read_text())
    (headers,) = pin.findall((repository / "requirements.lock").read_text())
    assert library == headers


def test_each_wheel_is_pinned_for_both_architectures(repository: Path) -> None:
    entries = re.split(r"^(?=\S+==)", (repository / "runtime/sdk.lock").read_text(), flags=re.MULTILINE)[1:]
    assert {entry.partition("==")[0]: entry.count("sha256:") for entry in entries} == {
        "executorch": 2,
        "nvidia-cuda-runtime": 2,
        "torch-tensorrt-executorch-runtime": 2,
    }
