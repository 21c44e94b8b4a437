"""A program with several methods in the C++ runtime: their names, inputs and state."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest

from modelbuild_rules.program.steps.linking.link import Residual, link


def ports(*declared: tuple[str, list[int]]) -> list[dict[str, Any]]:
    return [{"name": name, "dtype": "float32", "shape": shape} for name, shape in declared]


METHODS = {
    "count": {"inputs": ports(("x", [1])), "outputs": ports(("sum", [1]))},
    "two": {
        "inputs": ports(("left", [2, 4]), ("right", [2, 3])),
        "outputs": ports(("added", [2, 3]), ("twice", [2])),
    },
}


@pytest.fixture
def program(samples: dict[str, Any], tmp_path: Path) -> Path:
    """Return a program with the samples `counter` and `two` as methods."""
    residuals = {
        name: Residual(samples[sample].path, (), {}) for name, sample in (("count", "counter"), ("two", "two"))
    }
    path = tmp_path / "methods.pte"
    link(residuals, path, None, {"version": 1, "signature": {"version": 2, "methods": METHODS}})
    return path


@pytest.fixture
def files(tmp_path: Path) -> dict[str, np.ndarray]:
    """Write x.npy, left.npy and right.npy, and return their arrays."""
    draw = np.random.default_rng(0).standard_normal
    shapes = {"x": (1,), "left": (2, 4), "right": (2, 3)}
    arrays = {name: draw(shape).astype(np.float32) for name, shape in shapes.items()}
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    return arrays


def given(folder: Path, *names: str) -> list[str]:
    return [f"--input={name}={folder / name}.npy" for name in names]


def test_each_method_has_its_own_inputs_outputs_and_state(
    program: Path,
    files: dict[str, np.ndarray],
    samples: dict[str, Any],
    modelbuild_run: Callable[..., CompletedProcess[str]],
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    named = given(tmp_path, "left", "right")
    done = modelbuild_run(program, "--method=two", *named, f"--output-dir={out}", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["method"] == "two"
    added, twice = samples["two"].eager(files["left"], files["right"])
    np.testing.assert_allclose(np.load(out / "added.npy"), added, rtol=1e-5)
    np.testing.assert_allclose(np.load(out / "twice.npy"), twice, rtol=1e-5)
    x = given(tmp_path, "x")
    done = modelbuild_run(program, "--method=count", *x, "--next", *x, f"--output-dir={out}")
    assert done.returncode == 0, done.stderr
    assert np.load(out / "2/sum.npy") == files["x"] + 2


def test_calls_of_several_methods_follow_each_other(
    program: Path,
    files: dict[str, np.ndarray],
    samples: dict[str, Any],
    modelbuild_run: Callable[..., CompletedProcess[str]],
    tmp_path: Path,
) -> None:
    """A call has the method that is named for it, or that of the call before."""
    out, x, named = tmp_path / "out", given(tmp_path, "x"), given(tmp_path, "left", "right")
    calls = ["--method=count", *x, "--next", *x, "--next", "--method=two", *named, "--next", *x, "--method=count"]
    done = modelbuild_run(program, *calls, f"--output-dir={out}", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    outputs = [(each["call"], each["method"], each["name"]) for each in report["outputs"]]
    assert outputs == [
        (1, "count", "sum"),
        (2, "count", "sum"),
        (3, "two", "added"),
        (3, "two", "twice"),
        (4, "count", "sum"),
    ]
    assert (report["method"], [port["name"] for port in report["inputs"]]) == ("count", ["x"])
    sums = [np.load(out / f"{number}/sum.npy") - files["x"] for number in (1, 2, 4)]
    np.testing.assert_allclose(sums, [[1], [2], [3]], rtol=1e-6)
    added, _ = samples["two"].eager(files["left"], files["right"])
    np.testing.assert_allclose(np.load(out / "3/added.npy"), added, rtol=1e-5)
    done = modelbuild_run(program, *x, "--next", *x, "--method=count", "--json")
    assert [each["method"] for each in json.loads(done.stdout)["outputs"]] == ["count", "count"]
    done = modelbuild_run(program, "--method=count", *x, "--next", "--method=two", *x)
    assert (done.returncode, done.stderr) == (2, "error: no input 'x'; inputs: left, right\n")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "several methods; it has: count, two"),
        (["--method=tow"], "no method 'tow'; it has: count, two"),
        (["--method=count", "--input=left=left.npy"], "no input 'left'; inputs: x"),
    ],
)
def test_the_program_lists_its_methods(
    program: Path, modelbuild_run: Callable[..., CompletedProcess[str]], arguments: list[str], problem: str
) -> None:
    done = modelbuild_run(program, *arguments)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.endswith(f"{problem}\n")


def test_python_calls_methods(program: Path, files: dict[str, np.ndarray]) -> None:
    import modelbuild_runtime

    loaded = modelbuild_runtime.load(program)
    assert loaded.run({"x": files["x"]}, "count")["sum"] == files["x"] + 1
    assert list(loaded.run([files["left"], files["right"]], "two")) == ["added", "twice"]
    assert loaded.run([files["x"]], "count")["sum"] == files["x"] + 2
    with pytest.raises(modelbuild_runtime.InputError, match="several methods; it has: count, two"):
        loaded.run([files["x"]])


def test_the_descriptions_are_equal(program: Path, modelbuild_run: Callable[..., CompletedProcess[str]]) -> None:
    import modelbuild_runtime

    found = json.loads(modelbuild_run(program, "--describe", "--json").stdout)["methods"]
    assert [(each["name"], [port["name"] for port in each["inputs"]]) for each in found] == [
        ("count", ["x"]),
        ("two", ["left", "right"]),
    ]
    assert found == modelbuild_runtime.read_description(program).to_json()["methods"]


def test_a_signature_of_another_method_is_refused(
    samples: dict[str, Any], modelbuild_run: Callable[..., CompletedProcess[str]], tmp_path: Path
) -> None:
    path = tmp_path / "methods.pte"
    wrong = {"count": METHODS["two"]}
    link(
        {"count": Residual(samples["counter"].path, (), {})},
        path,
        None,
        {"version": 1, "signature": {"version": 2, "methods": wrong}},
    )
    done = modelbuild_run(path, "--describe")
    assert done.returncode == 1
    assert "its signature belongs to another program: it names 2 inputs, the program has 1" in done.stderr
