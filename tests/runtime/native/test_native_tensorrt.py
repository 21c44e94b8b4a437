"""The TensorRT delegate and its flavours, on fake TensorRT libraries whose virtual tables are those of slots.hpp."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

RETURNED = "end blocks=0 streams=0 events=0 graphs=0"
FAMILIES = {  # by flavour: its library, and the version that the fake one reports
    "8": ("libnvinfer.so.8", "8.6.0"),
    "10": ("libnvinfer.so.10", "10.16.0"),
    "11": ("libnvinfer.so.11", "11.1.0"),
    "rtx_1": ("libtensorrt_rtx.so.1", "1.6.1"),
}


def times_3_plus_1(fake_gpus: Any, program: Path, x: Path, **environment: str) -> list[str]:
    """Run a program on x, compare the output with x * 3 + 1, and return the log."""
    done = fake_gpus("modelbuild-run", program, f"--input=input0={x}", f"--output-dir={x.parent}/out", "--json",
                     "--log=info", **environment)  # fmt: skip
    assert done.returncode == 0, done.stderr
    out = json.loads(done.stdout)["outputs"][0]["path"]
    np.testing.assert_array_equal(np.load(out), np.load(x) * 3 + 1)
    assert fake_gpus.left_over() == RETURNED
    log: list[str] = done.stderr.splitlines()
    return [line for line in log if "stages host memory" not in line]


def error(fake_gpus: Any, program: Path, x: Path, **environment: str) -> str:
    """Run a program that fails on x, and return the last line of its error output."""
    done = fake_gpus("modelbuild-run", program, f"--input=input0={x}", **environment)
    assert (done.returncode, done.stdout) == (1, ""), done
    assert fake_gpus.left_over() == RETURNED
    line: str = done.stderr.splitlines()[-1]
    assert line.startswith("error: ")
    return line


@pytest.mark.parametrize("flavour", FAMILIES)
def test_slots_are_those_of_the_virtual_tables(native: Path, flavour: str) -> None:
    done = subprocess.run(
        [native / f"bin/modelbuild_tensorrt_{flavour}_slots"], capture_output=True, text=True, check=False
    )
    methods = 18 if flavour == "rtx_1" else 19  # engines of TensorRT-RTX contain no code
    assert (done.returncode, done.stdout) == (0, f"{methods} methods, 0 differ\n")


def test_flavours_are_built_without_headers_of_tensorrt(native: Path) -> None:
    assert "TensorRT_ROOT:PATH=\n" in (native / "CMakeCache.txt").read_text()
    built = {path.name for path in (native / "lib").glob("libmodelbuild_tensorrt_*.so")}
    assert built == {f"libmodelbuild_tensorrt_{flavour}.so" for flavour in FAMILIES}


@pytest.mark.parametrize("flavour", FAMILIES)
def test_an_engine_is_run_by_the_flavour_of_its_library_without_an_error_of_others(
    fake_gpus: Any, trt_programs: dict[str, Path], x: Path, flavour: str
) -> None:
    program = trt_programs[flavour.removesuffix("_1")]
    assert times_3_plus_1(fake_gpus, program, x) == []
    library, version = FAMILIES[flavour]
    (fake_gpus.plugins / library).unlink()
    line = error(fake_gpus, program, x)
    assert "cannot be loaded: none can read it of TensorRT" in line
    others = [(each, number) for each, number in FAMILIES.values() if each != library]
    assert all(f"{number} ({each})" in line for each, number in others)
    assert f"{version} ({library})" not in line


@pytest.mark.parametrize("flavour", FAMILIES)
def test_a_flavour_compiled_with_headers_runs_engines(
    fake_gpus: Any, native: Path, trt_programs: dict[str, Path], x: Path, flavour: str
) -> None:
    for own in fake_gpus.plugins.glob("libmodelbuild_tensorrt_*.so"):
        own.unlink()
    program = trt_programs[flavour.removesuffix("_1")]
    assert "there is no flavour of TensorRT beside the delegate" in error(fake_gpus, program, x)
    name = f"libmodelbuild_tensorrt_{flavour}_headers.so"
    os.link(native / "fakes/headers" / name, fake_gpus.plugins / name)
    assert times_3_plus_1(fake_gpus, program, x) == []


@pytest.mark.parametrize(
    ("flavour", "version", "found", "expected"),
    [
        ("8", "8703", "8.7.3", "8.5.3 to 8.6.99"),
        ("10", "101700", "10.17.0", "10.0.0 to 10.16.99"),
        ("11", "110200", "11.2.0", "11.0.0 to 11.1.99"),
        ("rtx_1", "10700", "1.7.0", "1.6.0 to 1.6.99"),
    ],
)
def test_a_library_whose_slots_are_unknown_is_refused_in_one_line(
    fake_gpus: Any, trt_programs: dict[str, Path], x: Path, flavour: str, version: str, found: str, expected: str
) -> None:
    library, _ = FAMILIES[flavour]
    for other, _ in FAMILIES.values():
        if other != library:
            (fake_gpus.plugins / other).unlink()
    line = error(fake_gpus, trt_programs[flavour.removesuffix("_1")], x, FAKE_TENSORRT_VERSION=version)
    assert f"{library} is version {found}; expected {expected}" in line


def test_without_a_library_of_tensorrt_the_error_names_the_libraries(
    fake_gpus: Any, trt_programs: dict[str, Path], x: Path
) -> None:
    for library, _ in FAMILIES.values():
        (fake_gpus.plugins / library).unlink()
    assert "TensorRT's library was not found; put libnvinfer," in error(fake_gpus, trt_programs["host"], x)


def test_a_plan_that_no_flavour_can_read_is_an_error_with_each_reason(
    fake_gpus: Any, trt_programs: dict[str, Path], x: Path
) -> None:
    for library in ("libnvinfer.so.11", "libtensorrt_rtx.so.1"):
        (fake_gpus.plugins / library).unlink()
    *reasons, line = fake_gpus("modelbuild-run", trt_programs["nonsense"], f"--input=input0={x}").stderr.splitlines()
    what = "a TensorRT engine of 25 bytes of method forward cannot be loaded"
    names = ["TensorRT 10.16.0 (libnvinfer.so.10)", "TensorRT 8.6.0 (libnvinfer.so.8)"]
    assert f"a delegate refuses its blob: {what}: none can read it of {', '.join(names)}" in line
    for name in names:
        assert f"E {name} can't read it: the plan is of another version" in reasons
    (fake_gpus.plugins / "libnvinfer.so.8").unlink()
    line = error(fake_gpus, trt_programs["nonsense"], x)
    assert f"{what}: {names[0]} can't read it: the plan is of another version" in line


def test_the_profile_is_the_one_with_room_for_the_shapes(
    fake_gpus: Any, trt_programs: dict[str, Path], tmp_path: Path
) -> None:
    path = tmp_path / "x.npy"
    for batch in (1, 4, 5, 8):
        np.save(path, np.arange(batch * 16, dtype=np.float32).reshape(batch, 16))
        assert times_3_plus_1(fake_gpus, trt_programs["profiles"], path) == []


def test_profiles_alternate_from_run_to_run(fake_gpus: Any, trt_programs: dict[str, Path]) -> None:
    done = fake_gpus("contract_check", "batches", trt_programs["profiles"], "3", "8", "1", "5", "5", "4")
    assert (done.returncode, done.stderr) == (0, "")
    assert fake_gpus.left_over() == RETURNED


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("shape", "input 'x' can't be used: its values decide shapes, and TensorRT reads them on the host"),
        ("format", "input 'x' can't be used: its format is not linear"),
    ],
)
def test_inputs_that_are_not_linear_device_memory_are_refused_when_loaded(
    fake_gpus: Any, trt_programs: dict[str, Path], x: Path, program: str, why: str
) -> None:
    line = error(fake_gpus, trt_programs[program], x)
    assert "could not be loaded" in line
    assert f"{why}; expected linear memory on the GPU" in line


def test_the_delegates_error_comes_first_with_tensorrts_first_reason(
    fake_gpus: Any, trt_programs: dict[str, Path], x: Path
) -> None:
    line = error(fake_gpus, trt_programs["fails"], x)
    assert "TensorRT engine 0 of method forward: cannot be enqueued on cuda:0: the first reason" in line


def test_warnings_of_tensorrt_are_logged_with_the_engine(
    fake_gpus: Any, trt_programs: dict[str, Path], x: Path
) -> None:
    log = times_3_plus_1(fake_gpus, trt_programs["warns"], x)
    assert set(log) == {"I TensorRT engine 0 of method forward: TensorRT warning: slower than it could be"}


def test_a_plan_whose_bytes_changed_is_refused_before_tensorrt_reads_it(
    fake_gpus: Any, trt_programs: dict[str, Path], seal_copy: Callable[[Path, Path], Path], x: Path, tmp_path: Path
) -> None:
    sealed = seal_copy(trt_programs["host"], tmp_path / "sealed.pte")
    assert times_3_plus_1(fake_gpus, sealed, x) == []
    assert sealed.read_bytes().count(b'"scale": 3.0') == 1
    sealed.write_bytes(sealed.read_bytes().replace(b'"scale": 3.0', b'"scale": 7.0'))
    done = fake_gpus("modelbuild-run", sealed, f"--input=input0={x}")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"error: {sealed}: is damaged: its SHA-256 is not the one in its manifest\n"
    unverified = fake_gpus("modelbuild-run", sealed, f"--input=input0={x}", "--no-verify", f"--output-dir={tmp_path}/o")
    assert unverified.returncode == 0  # the change is one that TensorRT does not notice
    np.testing.assert_array_equal(np.load(tmp_path / "o/output0.npy"), np.load(x) * 7 + 1)
