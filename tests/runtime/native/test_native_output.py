"""What modelbuild-run writes: names of a program that are safe to print, files that belong to one output, and an error
for output that is not written."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import modelbuild_runtime
from modelbuild_runtime import ProgramError
from tests.sealed_programs import PORTS

Run = Callable[..., subprocess.CompletedProcess[str]]
Named = Callable[..., Path]


@pytest.fixture
def named(samples: dict[str, Any], seal_copy: Callable[..., Path], tmp_path: Path) -> Named:
    """Return the sample `dynamic` with other names of outputs, or another manifest."""

    def make(*outputs: str, **facts: Any) -> Path:
        ports = [{**port, "name": name} for port, name in zip(PORTS["outputs"], outputs, strict=True)]
        signature = {"version": 2, "methods": {"forward": {**PORTS, "outputs": ports}}}
        return seal_copy(samples["dynamic"].path, tmp_path / "named.pte", signature=signature, **facts)

    return make


@pytest.fixture
def inputs(tmp_path: Path) -> list[str]:
    for name, width in (("x", 4), ("y", 3)):
        np.save(tmp_path / f"{name}.npy", np.ones((2, width), np.float32))
    return [f"--input=x={tmp_path}/x.npy", f"--input=y={tmp_path}/y.npy"]


HOSTILE = "a\x1b[2J\x9b1m\u202eb\nc"
ESCAPED = r"a\x1b[2J\xc2\x9b1m\xe2\x80\xaeb\nc"


def unprintable(text: str) -> list[str]:
    return [each for each in text if not (each.isprintable() or each == "\n")]


def test_names_cannot_move_the_cursor(named: Named, modelbuild_run: Run, inputs: list[str]) -> None:
    path = named(HOSTILE, "sums", versions={HOSTILE: HOSTILE})
    described = modelbuild_run(path, "--describe")
    assert described.returncode == 0
    assert f"output {ESCAPED}: " in described.stdout
    assert f"made with {ESCAPED} {ESCAPED}" in described.stdout
    ran = modelbuild_run(path, *inputs)
    assert f"output {ESCAPED}: " in ran.stdout
    wrong = modelbuild_run(path, f"--method={HOSTILE}", *inputs)
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
    assert ESCAPED in wrong.stderr
    for done in (described, ran, wrong):
        assert unprintable(done.stdout + done.stderr) == []
    document = modelbuild_run(path, "--describe", "--json").stdout
    assert document.isascii()
    assert json.loads(document)["methods"][0]["outputs"][0]["name"] == HOSTILE
    assert unprintable(str(modelbuild_runtime.read_description(path))) == []


def test_bytes_that_are_not_utf8_are_escaped(samples: dict[str, Any], modelbuild_run: Run, tmp_path: Path) -> None:
    path = tmp_path / "method.pte"
    path.write_bytes(samples["two"].path.read_bytes().replace(b"forward\0", b"f\xff\xc2rw\x1bd\0"))
    described = modelbuild_run(path, "--describe")
    assert r"  method f\xff\xc2rw\x1bd, " in described.stdout
    wrong = modelbuild_run(path, "--method=other")
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
    assert r"f\xff\xc2rw\x1bd" in wrong.stderr
    assert modelbuild_run(path, "--describe", "--json").stdout.isascii()


@pytest.mark.parametrize(
    ("names", "why"), [(("s", "s"), "two outputs have the name 's'"), (("", "s"), "an output has no name")]
)
def test_an_output_has_a_name_of_its_own(
    names: tuple[str, str], why: str, named: Named, modelbuild_run: Run, inputs: list[str]
) -> None:
    path = named(*names)
    done = modelbuild_run(path, *inputs)
    assert done.returncode == 1
    assert done.stderr == f"error: {path}: its signature belongs to another program: {why}\n"
    with pytest.raises(ProgramError, match=f"{why}|expected each name once"):
        modelbuild_runtime.read_description(path)


def test_outputs_of_one_file_are_refused(named: Named, modelbuild_run: Run, inputs: list[str], tmp_path: Path) -> None:
    done = modelbuild_run(named("a/b", "a\0b"), *inputs, f"--output-dir={tmp_path}/out")
    assert done.returncode == 2
    assert done.stderr == f"error: output 'a\\x00b': another output has the same file {tmp_path}/out/a_b.npy\n"
    assert not (tmp_path / "out").exists()


def test_no_output_leaves_its_folder(named: Named, modelbuild_run: Run, inputs: list[str], tmp_path: Path) -> None:
    before = set(tmp_path.rglob("*"))
    done = modelbuild_run(named("../../up", ".."), *inputs, f"--output-dir={tmp_path}/out")
    assert (done.returncode, done.stderr) == (0, "")
    out = tmp_path / "out"
    assert set(tmp_path.rglob("*")) - before == {tmp_path / "named.pte", out, out / ".._.._up.npy", out / "...npy"}


def test_an_output_does_not_replace_an_input(
    named: Named, modelbuild_run: Run, inputs: list[str], tmp_path: Path
) -> None:
    whole = (tmp_path / "x.npy").read_bytes()
    done = modelbuild_run(named("x", "sums"), *inputs, f"--output-dir={tmp_path}")
    assert done.returncode == 2
    assert done.stderr == f"error: output 'x': its file {tmp_path}/x.npy is that of input 'x'\n"
    assert (tmp_path / "x.npy").read_bytes() == whole
    assert not (tmp_path / "sums.npy").exists()


FULL = "error: standard output: cannot be written: No space left on device\n"


@pytest.mark.parametrize("more", [["--describe"], ["--describe", "--json"], ["--help"], []])
def test_a_full_standard_output_is_an_error(
    more: list[str], native: Path, samples: dict[str, Any], tmp_path: Path
) -> None:
    np.save(tmp_path / "x.npy", np.ones((2, 4), np.float32))
    np.save(tmp_path / "y.npy", np.ones((2, 3), np.float32))
    arguments = [f"--input=input0={tmp_path}/x.npy", f"--input=input1={tmp_path}/y.npy", *more]
    command = [native / "bin/modelbuild-run", samples["two"].path, *arguments]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, FULL)
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, FULL.replace("No space left on device", "Broken pipe"))
    done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *command], stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, FULL.replace("No space left on device", "Bad file descriptor"))


def test_a_file_that_cannot_be_written_is_an_error_and_keeps_its_content(
    native: Path, named: Named, inputs: list[str], tmp_path: Path
) -> None:
    """With a limit of no bytes for a file, as on a full disk."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "scores.npy").write_bytes(b"of an earlier run")
    command = [native / "bin/modelbuild-run", named("scores", "sums"), *inputs, f"--output-dir={out}"]
    limited = ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *command]
    done = subprocess.run(limited, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"error: {out}/scores.npy: cannot be written: File too large\n"
    assert {each.name: each.read_bytes() for each in out.iterdir()} == {"scores.npy": b"of an earlier run"}
    profile = [*command, "--repeat=1", "--profile=/dev/full"]
    done = subprocess.run(profile, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "error: /dev/full: cannot be written: No space left on device\n")
