"""The runtime for aarch64, in qemu: results, delegates on a fake CUDA runtime, and the requirements of its files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import modelbuild_runtime
from modelbuild.trust.signatures import SigningKey, sign, signature_path
from modelbuild_rules.backend_api.steps.elf import machine
from tests.runtime.native.aarch64 import EMULATOR, Runtime
from tests.trust.keys import write_key

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive, pytest.mark.xdist_group("aarch64")]


def test_every_file_of_the_archive_is_for_aarch64(aarch64: Runtime) -> None:
    described = json.loads((aarch64.folder / "runtime.json").read_text())
    machines = {name: machine(aarch64.folder / name) for name in described["files"] if not name.endswith(".json")}
    assert "bin/modelbuild-run" in machines
    assert machines == dict.fromkeys(machines, "aarch64")


@pytest.mark.parametrize("name", ["xnnpack", "two", "external", "channels_last"])
def test_gives_what_python_gives_on_this_machine(
    samples: dict[str, Any], aarch64: Runtime, tmp_path: Path, name: str
) -> None:
    program = modelbuild_runtime.load(samples[name].path)
    random = np.random.default_rng(7)
    arrays, flags = {}, []
    for port in program.describe().method("forward").inputs:
        arrays[port.name] = random.standard_normal([dim.max for dim in port.shape]).astype(port.dtype)
        np.save(tmp_path / f"{port.name}.npy", arrays[port.name])
        flags.append(f"--input={port.name}={tmp_path}/{port.name}.npy")
    done = aarch64("bin/modelbuild-run", samples[name].path, *flags, f"--output-dir={tmp_path}/out", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    outputs = {port["name"]: np.load(port["path"]) for port in json.loads(done.stdout)["outputs"]}
    expected = program.run(arrays)
    assert outputs.keys() == expected.keys()
    for output, array in expected.items():
        np.testing.assert_allclose(outputs[output], array, atol=1e-5, rtol=1e-5)


def test_signatures_are_verified(samples: dict[str, Any], aarch64: Runtime, tmp_path: Path) -> None:
    program, key = Path(shutil.copy(samples["two"].path, tmp_path)), write_key(tmp_path, "release")
    signature_path(program).write_bytes(sign(program, SigningKey(key)))
    command = ("bin/modelbuild-run", program, "--describe", f"--verify={key.with_suffix('.pub')}")
    done = aarch64(*command)
    assert (done.returncode, done.stderr) == (0, "")
    program.write_bytes(program.read_bytes() + b"\0")
    done = aarch64(*command)
    assert (done.returncode, done.stderr) == (1, f"error: {program}: was changed after it was signed\n")
    write_key(tmp_path, "release")
    done = aarch64(*command)
    problem = "was made by another key, or changed"
    assert (done.returncode, done.stderr) == (1, f"error: {program}.sig: {problem}\n")


def test_the_c_example_runs(samples: dict[str, Any], aarch64: Runtime) -> None:
    done = aarch64("bin/modelbuild-example", samples["counter"].path, "1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "output0: 1\n", "")


def test_delegates_for_gpus_run_on_a_fake_cuda_runtime(
    aarch64: Runtime,
    lay_out_fakes: Callable[..., Any],
    trt_programs: dict[str, Path],
    aarch64_cuda_programs: dict[str, Path],
    cuda_programs: dict[str, Path],
    x: Path,
    tmp_path: Path,
) -> None:
    gpus = lay_out_fakes(aarch64.folder, EMULATOR)
    once = np.load(x) * 3 + 1
    programs = [
        (trt_programs["host"], once),
        (trt_programs["planned"], once),
        (trt_programs["two"], np.sin(once) * 3 + 1),
        (aarch64_cuda_programs["planned"], once),
        (aarch64_cuda_programs["two"], np.sin(once) * 3 + 1),
    ]
    for number, (program, expected) in enumerate(programs):
        out = tmp_path / str(number)
        done = gpus("modelbuild-run", program, f"--input=input0={x}", f"--output-dir={out}", "--repeat=3")
        assert done.returncode == 0, done.stderr
        np.testing.assert_allclose(np.load(out / "output0.npy"), expected, atol=1e-5)
        assert gpus.left_over() == "end blocks=0 streams=0 events=0 graphs=0"
    for program in (trt_programs["device"], aarch64_cuda_programs["device"]):
        done = gpus("contract_check", "stream", program, "0")
        assert done.stdout.splitlines() == ["before the wait: not there", "after the wait: there"], done.stderr

    done = gpus("modelbuild-run", cuda_programs["planned"], f"--input=input0={x}")
    assert done.returncode == 1
    assert "a compiled library cannot be loaded" in done.stderr  # it is for x86-64
