"""The number of threads that compute on the CPU, which the first program of a process decides."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelbuild_runtime import read_description

COUNT = """
import json, os, sys
import numpy as np
import modelbuild_runtime
path, runtime, *given = sys.argv[1:]
inputs = dict(np.load(f"{path}.npz"))
before = len(os.listdir("/proc/self/task"))
found = []
for threads in map(int, given):
    try:
        program = modelbuild_runtime.load(path, runtime=runtime, threads=threads)
        made = [np.asarray(each).tolist() for each in program.run(inputs).values()]
        found.append([len(os.listdir("/proc/self/task")) - before + 1, made])
    except modelbuild_runtime.InputError as error:
        found.append(str(error))
print(json.dumps(found))
"""


def inputs_of(program: Path) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    ports = read_description(program).method("forward").inputs
    return {port.name: random.standard_normal([dim.max for dim in port.shape]).astype("float32") for port in ports}


@pytest.fixture
def counted(samples: dict[str, Any], native: Path, tmp_path: Path) -> Callable[..., list[Any]]:
    """counted(3, 0) loads a program for XNNPACK with 3 threads, and then as they are, in a new process. It returns for
    each load the number of threads that compute and the results, or the error."""
    program = tmp_path / "program.pte"
    program.write_bytes(samples["xnnpack"].path.read_bytes())
    np.savez(f"{program}.npz", **inputs_of(program))

    def count(*threads: int) -> list[Any]:
        command = [sys.executable, "-c", COUNT, program, native, *map(str, threads)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found: list[Any] = json.loads(done.stdout)
        return found

    return count


def test_the_first_load_decides_the_number_of_threads(counted: Callable[..., list[Any]]) -> None:
    ((one, expected),) = counted(1)
    assert one == 1
    for threads in (2, 5):
        ((found, result),) = counted(threads)
        assert found == threads
        for made, other in zip(result, expected, strict=True):
            np.testing.assert_allclose(made, other, rtol=1e-5)


def test_later_loads_share_them(counted: Callable[..., list[Any]]) -> None:
    first, same, default, other = counted(3, 3, 0, 2)
    assert first[0] == same[0] == default[0] == 3
    assert other == "threads: 2; this process has loaded a program with 3, and its programs share them"


def test_the_command_takes_a_number(samples: dict[str, Any], native: Path, tmp_path: Path) -> None:
    program = samples["xnnpack"].path
    command = [native / "bin/modelbuild-run", program]
    for name, array in inputs_of(program).items():
        np.save(tmp_path / f"{name}.npy", array)
        command.append(f"--input={name}={tmp_path}/{name}.npy")
    with subprocess.Popen([*command, "--threads=4", "--repeat=100000000"], stdout=subprocess.DEVNULL) as process:
        try:
            seen = [0]  # the pool of another size ends after the new one has begun, so that 4 may be seen before more
            while seen[-5:] != [4] * 5 and len(seen) < 600 and process.poll() is None:
                time.sleep(0.1)
                seen.append(len(os.listdir(f"/proc/{process.pid}/task")))
            assert seen[-1] == 4
        finally:
            process.kill()
    done = subprocess.run([*command, "--threads=2000"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "error: threads: 2000; expected 1 to 1024, or 0 for one per core\n")
