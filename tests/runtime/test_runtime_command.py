"""`python -m modelbuild_runtime`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelbuild_runtime.__main__ import main


@pytest.fixture
def arguments(samples: dict[str, Any], tmp_path: Path) -> list[str]:
    np.save(tmp_path / "x.npy", np.ones((2, 4), np.float32))
    (tmp_path / "y.json").write_text("[[1, 2, 3], [4, 5, 6]]")
    return [str(samples["two"].path), f"--input=input0={tmp_path}/x.npy", f"--input=input1={tmp_path}/y.json"]


def test_run_prints_shapes_and_latency_and_writes_outputs(
    arguments: list[str], samples: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "--output-dir", str(tmp_path / "out"), "--repeat", "5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        "input  input0: float32[2, 4]",
        "input  input1: float32[2, 3]",
        f"output output0: float32[2, 3] -> {tmp_path}/out/output0.npy",
        f"output output1: float32[2] -> {tmp_path}/out/output1.npy",
    ]
    assert lines[4].startswith("latency ")
    assert lines[4].endswith("(5 runs after 3)")
    y = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    expected = samples["two"].eager(np.ones((2, 4), np.float32), y)
    np.testing.assert_allclose(np.load(tmp_path / "out" / "output0.npy"), expected[0], atol=1e-5)


def test_json(arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--json", "--repeat=2", "--warmup=0", f"--output-dir={tmp_path}", "--output-format=json"]
    assert main([*arguments, *options]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["outputs"][1] == {
        "name": "output1",
        "dtype": "float32",
        "shape": [2],
        "path": f"{tmp_path}/output1.json",
    }
    assert report["latency"]["runs"] == 2
    assert json.loads((tmp_path / "output1.json").read_text()) == [8.0, 8.0]


def test_inputs_are_saved_as_the_program_would_get_them(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, f"--save-inputs={tmp_path / 'saved'}"]) == 0
    saved = json.loads(capsys.readouterr().out)
    assert saved == {"version": 1, "inputs": {f"input{n}": f"{tmp_path}/saved/input{n}.npy" for n in range(2)}}
    y = np.load(tmp_path / "saved/input1.npy")
    assert (y.dtype, y.tolist()) == (np.float32, [[1, 2, 3], [4, 5, 6]])
    assert main([*arguments[:2], f"--save-inputs={tmp_path / 'saved'}"]) == 2


def test_describe(samples: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(samples["xnnpack"].path), "--describe"]) == 0
    assert "XnnpackBackend: 1 part" in capsys.readouterr().out
    assert main([str(samples["xnnpack"].path), "--describe", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["methods"][0]["delegates"][0]["backend"] == "XnnpackBackend"


@pytest.mark.parametrize(
    ("extra", "code", "message"),
    [
        (["--input", "input0"], 2, "error: --input input0: expected name=file"),
        (["--input", "input0=x.npy"], 2, "error: --input input0=x.npy: 'input0' is given twice"),
        (["--input", "z=x.npy"], 2, "error: no input 'z'; inputs: input0, input1"),
        (["--method", "backward"], 2, "error: {program}: no method 'backward'; it has: forward"),
        (["--data", "x.ptd"], 1, "error: x.ptd: no such file"),
        (["--input", "z\n=x.npy"], 2, "error: no input 'z\\n'; inputs: input0, input1"),
        (["--method", "a\x1b[31m"], 2, "error: {program}: no method 'a\\x1b[31m'; it has: forward"),
        (["--output-dir", "/dev/null/x"], 1, "error: /dev/null/x: Not a directory"),
        (["--repeat", "-1"], 2, "error: repeat must be at least 1 and warmup at least 0, and both at most 1000000"),
    ],
)
def test_errors(
    arguments: list[str], extra: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, *extra]) == code
    captured = capsys.readouterr()
    # If a program starts to run, libraries print messages about the machine before the error.
    said = [line for line in captured.err.splitlines() if not line.startswith("[cpuinfo_utils.cpp:")]
    assert said == [message.format(program=arguments[0])]
    assert captured.out == ""


def test_missing_input(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments[:2]) == 2
    assert capsys.readouterr().err == "error: missing input input1: float32[2, 3]\n"
