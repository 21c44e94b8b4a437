"""The compilers of runtime/toolchain.py, and the wheels that runtime/sdk.lock pins."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest


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


def test_wheels_are_unpacked_beside_files_of_the_user(
    builder: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is chosen by --out, so names in it may be taken."""
    for name in ("wheels", "unpacked"):
        (tmp_path / "sdk" / name).mkdir(parents=True)
        (tmp_path / "sdk" / name / "mine").touch()

    def download(*command: str, **options: object) -> None:
        (folder,) = (each.removeprefix("--dest=") for each in command if each.startswith("--dest="))
        Path(folder).mkdir()
        with zipfile.ZipFile(Path(folder, "a.whl"), "w") as wheel:
            wheel.writestr("include/a.h", "")

    monkeypatch.setattr(builder, "_run", download)
    made = builder.fetch_sdk(tmp_path / "sdk", "x86_64")
    assert (made / "include/a.h").is_file()
    assert {path.name for path in (tmp_path / "sdk").iterdir()} == {".lock", "wheels", "unpacked", made.name}
    assert all((tmp_path / "sdk" / name / "mine").exists() for name in ("wheels", "unpacked"))
