"""Candidates are timed by a program that needs Python and CUDA's driver only: with a fake driver, and without one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from modelbuild_rules.backends.cuda.steps.kernels import timing
from modelbuild_rules.backends.cuda.steps.kernels.candidates import Candidates
from modelbuild_rules.backends.cuda.steps.kernels.timing import Launch, best

CUBIN = b"\x7fELF"
ARGUMENTS = (("*fp32", 64), ("i32", 7), ("*i64", 16), ("*bf16", 2))
SLOW = Launch("slow", CUBIN, (3, 2, 1), 128, 2048, ARGUMENTS)
FAST = Launch("fast", CUBIN, (2, 2, 1), 64, 1024, ARGUMENTS)
STRANGE = Launch("strange", CUBIN, (1, 1, 1), 64, 0, (("tensordesc", 1),))
SIZES = {"slow": 32, "fast": 64, "strange": 16}

Run = Callable[..., tuple[int, str, str]]


def choice(operator: str) -> dict[str, Any]:
    return {"op": operator, "inputs": [], "output": "", "options": {}}


def package(path: Path, choices: Mapping[str, tuple[Launch, ...]], **head: str) -> None:
    """Write a package: the launches of the candidates by each choice's operator, the first of them that by cost."""
    candidates = Candidates(8)
    for operator, launches in choices.items():
        chosen = [{"BLOCK_M": SIZES[each.name]} for each in launches]
        calls = {n: partial(candidates.launched, each) for n, each in enumerate(launches)}
        candidates.add(choice(operator), chosen, 0, calls)
    candidates.write(path, **{"torch": "2.14.0", "triton": "3.8.0", "capability": "9.0", **head})


@pytest.fixture
def run(tmp_path: Path, timed_driver: Path) -> Run:
    """Time a package of two choices, in a bare Python; return the exit status, the output and the errors."""

    def timed(*options: str, driver: Path = timed_driver, **environment: str) -> tuple[int, str, str]:
        if not (tmp_path / "net.tuning.pyz").exists():
            package(tmp_path / "net.tuning.pyz", {"mm": (SLOW, FAST), "bmm": (FAST, SLOW)})
        done = subprocess.run(
            [sys.executable, "-I", "-S", "net.tuning.pyz", "made.json", *options],
            cwd=tmp_path,
            env={"LD_LIBRARY_PATH": str(driver), **environment},
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stdout, done.stderr

    return timed


def entries(folder: Path) -> dict[str, tuple[int, float, float | None]]:
    """Return the chosen size, its microseconds and those by cost, by operator."""
    found = json.loads((folder / "made.json").read_text())["choices"]
    return {each["op"]: (each["chosen"]["BLOCK_M"], each["microseconds"], each.get("by_cost")) for each in found}


def test_kernels_are_launched_with_their_arguments_and_the_fastest_is_taken(run: Run, tmp_path: Path) -> None:
    log = tmp_path / "log"
    status, printed, problem = run(FAKE_LOG=str(log), FAKE_ARGUMENTS="4")
    assert (status, problem) == (0, "")
    assert entries(tmp_path) == {"mm": (64, 20.0, 38.0), "bmm": (64, 20.0, 20.0)}
    assert "4 candidates of 2 choices timed on Fake GPU 0 in 0 s; 1 are faster than those by cost" in printed
    assert "one launch of each takes 40 us, by cost 58 us" in printed
    lines = log.read_text().splitlines()
    buffers = "*3c 7 *00 *3c"  # those of numbers that are small, of indices: zeros
    assert set(lines) == {f"slow 3 2 1 128 2048 {buffers}", f"fast 2 2 1 64 1024 {buffers}"}
    assert len(lines) == 4 * (timing.RUNS + 2)


def test_a_kernel_that_ends_the_process_is_left_out(run: Run, tmp_path: Path) -> None:
    status, _, problem = run(FAKE_CRASH="slow")
    assert status == 0
    assert problem.count("not timed: slow: the process ended by signal 6") == 2
    assert entries(tmp_path) == {"mm": (64, 20.0, None), "bmm": (64, 20.0, 20.0)}


def test_arguments_that_cannot_be_made_are_told(run: Run, tmp_path: Path) -> None:
    package(tmp_path / "net.tuning.pyz", {"mm": (SLOW, STRANGE, FAST)})
    status, _, problem = run()
    assert (status, problem.strip()) == (0, "not timed: strange: arguments of type tensordesc are not supported")
    assert entries(tmp_path) == {"mm": (64, 20.0, 38.0)}


@pytest.mark.parametrize(
    ("environment", "problem"),
    [
        ({"FAKE_DEVICES": "0"}, "error: there is no GPU 0; this machine has 0"),
        ({"FAKE_FAILS": "cuInit"}, "error: cuInit failed: a failure that was asked for (701)"),
        ({"FAKE_CAPABILITY": "86"}, "error: Fake GPU 0 has compute capability 8.6, not 9.0"),
        ({"FAKE_FAILS": "cuLaunchKernel"}, "error: none of the candidates can be timed"),
    ],
)
def test_failures_are_reported(run: Run, tmp_path: Path, environment: dict[str, str], problem: str) -> None:
    status, printed, told = run(**environment)
    assert (status, printed, told.splitlines()[-1]) == (1, "", problem)
    assert not (tmp_path / "made.json").exists()


def test_a_machine_without_a_driver_is_told(run: Run, tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").write_text("no library")
    problem = "error: libcuda.so.1 can't be loaded; expected a machine with an NVIDIA GPU\n"
    assert run(driver=tmp_path) == (1, "", problem)


def test_choices_are_added_to_a_file(run: Run, tmp_path: Path) -> None:
    package(tmp_path / "net.tuning.pyz", {"mm": (SLOW, FAST)})
    assert run()[0] == 0
    package(tmp_path / "net.tuning.pyz", {"bmm": (FAST, SLOW), "mm": (SLOW, SLOW)})
    assert run()[0] == 0
    assert entries(tmp_path) == {"mm": (64, 20.0, 38.0), "bmm": (64, 20.0, 20.0)}


def test_a_full_disk_keeps_earlier_measurements(run: Run, tmp_path: Path, timed_driver: Path) -> None:
    assert run()[0] == 0
    text = (tmp_path / "made.json").read_text()
    names = sorted(path.name for path in tmp_path.iterdir())
    command = ["sh", "-c", 'ulimit -f 0; exec "$0" -I -S net.tuning.pyz made.json', sys.executable]
    done = subprocess.run(
        command, cwd=tmp_path, env={"LD_LIBRARY_PATH": str(timed_driver)}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, "error: made.json: File too large\n")
    assert (tmp_path / "made.json").read_text() == text
    assert sorted(path.name for path in tmp_path.iterdir()) == names


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "error: made.json: not a tuning file; expected one to add to, or a new name\n"),
        ('{"choices": [{}]}', "error: made.json: not a tuning file; expected one to add to, or a new name\n"),
        (
            timing.tuning_text([], "2.13.0", "3.8.0", "9.0"),
            "error: made.json: made with torch 2.13.0; expected 2.14.0, or a new name\n",
        ),
    ],
)
def test_a_file_of_something_else_is_kept(run: Run, tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "made.json").write_text(text)
    assert run() == (1, "", problem)
    assert (tmp_path / "made.json").read_text() == text


@pytest.mark.parametrize(
    ("times", "usual", "taken"),
    [
        ({0: 3.0, 1: 2.0, 2: 1.0}, 0, 2),
        ({1: 2.0, 2: 4.0}, 0, 1),
        ({0: 2.0, 1: 4.0}, None, 0),
        ({0: 2.01, 1: 2.0, 2: 3.0}, 0, 0),  # indistinguishable from the fastest
    ],
)
def test_the_fastest_is_that_by_cost_within_noise(times: dict[int, float], usual: int | None, taken: int) -> None:
    assert best(times, usual) == taken
