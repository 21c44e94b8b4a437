"""Loading and running programs: results against eager PyTorch, descriptions, and errors."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import modelbuild_runtime
from modelbuild_runtime import Dim, InputError, Program, ProgramError, load
from tests.sealed_programs import PORTS

RNG = np.random.default_rng(7)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, dtype=np.float32)


CASES: dict[str, tuple[Any, ...]] = {
    "two": (floats(2, 4), floats(2, 3)),
    "xnnpack": (floats(2, 4), floats(2, 3)),
    "dynamic": (floats(5, 4), floats(5, 3)),
    "bfloat16": (floats(2, 4), floats(2, 3)),
    "float16": (floats(2, 4).astype(np.float16), floats(2, 3).astype(np.float16)),
    "uint8": (RNG.integers(0, 256, (1, 4, 6, 3), dtype=np.uint8),),
    "number": (floats(2, 2), 3),
    "nonzero": (np.array([0, 0, 2], np.float32),),
    "channels_last": (floats(1, 3, 8, 8),),
    "external": (floats(2, 4), floats(2, 3)),
}
TOLERANCES = {"bfloat16": 0.05, "float16": 5e-3}


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_eager(samples: dict[str, Any], name: str) -> None:
    sample, inputs = samples[name], CASES[name]
    outputs = load(sample.path).run(inputs)
    expected = sample.eager(*inputs)
    assert list(outputs) == [f"output{i}" for i in range(len(expected))]
    for got, want in zip(outputs.values(), expected, strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCES.get(name, 1e-5))


def test_results_are_the_callers_own(samples: dict[str, Any]) -> None:
    program = load(samples["two"].path)
    first = program.run(CASES["two"])
    kept = {name: array.copy() for name, array in first.items()}
    second = program.run((floats(2, 4), floats(2, 3)))
    for name, array in first.items():
        np.testing.assert_array_equal(array, kept[name])
        assert not np.array_equal(array, second[name])
        array[...] = 0  # writeable


def test_threads_that_share_a_program_each_get_their_own_results(samples: dict[str, Any]) -> None:
    program = load(samples["two"].path)

    def results(number: int) -> bool:
        x, y = (np.full(shape, number, np.float32) for shape in ((2, 4), (2, 3)))
        found = [program.run([x, y]) for _ in range(20)]
        return all(np.allclose(each[f"output{i}"], expected[number][i], atol=1e-5) for each in found for i in (0, 1))

    expected = [samples["two"].eager(np.full((2, 4), n, np.float32), np.full((2, 3), n, np.float32)) for n in range(8)]
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(results, range(8)))


def test_inputs_are_left_alone_and_may_be_read_only_or_strided(samples: dict[str, Any]) -> None:
    x = np.asfortranarray(floats(2, 4))
    x.flags.writeable = False
    y = floats(4, 6)[::2, ::2]
    got = load(samples["two"].path).run((x, y))
    np.testing.assert_allclose(got["output0"], samples["two"].eager(x.copy(), y.copy())[0], atol=1e-5)


def test_state_lasts_as_long_as_the_program(samples: dict[str, Any]) -> None:
    program = load(samples["counter"].path)
    zero = np.zeros(1, np.float32)
    assert [float(program.run([zero])["output0"][0]) for _ in range(3)] == [1, 2, 3]
    program.measure([zero], repeat=4, warmup=2)
    assert program.run([zero])["output0"][0] == 10
    assert load(samples["counter"].path).run([zero])["output0"][0] == 1


def test_measured_latency_is_ordered_and_counts_runs(samples: dict[str, Any]) -> None:
    latency = load(samples["two"].path).measure(CASES["two"], repeat=20, warmup=1)
    assert 0 < latency.min_ms <= latency.median_ms <= latency.p95_ms <= latency.max_ms
    assert (latency.runs, latency.warmup) == (20, 1)
    with pytest.raises(InputError, match="repeat must be at least 1"):
        load(samples["two"].path).measure(CASES["two"], repeat=0)


def test_description_without_a_signature(samples: dict[str, Any]) -> None:
    described = load(samples["dynamic"].path).describe()
    method = described.method("forward")
    assert [str(p) for p in method.inputs] == [
        "input0: float32[0..8, 0..4]",
        "input1: float32[0..8, 0..3]",
    ]
    assert described.bytes == samples["dynamic"].path.stat().st_size
    number = load(samples["number"].path).describe().method("forward")
    assert str(number.inputs[1]) == "input1: int = 3"
    xnnpack = load(samples["xnnpack"].path).describe().method("forward")
    ((backend, parts, size),) = xnnpack.delegates
    assert (backend, parts) == ("XnnpackBackend", 1)
    assert 0 < size < samples["xnnpack"].path.stat().st_size
    assert "aten::linear.out" not in dict(xnnpack.operators)
    assert dict(method.operators)["aten::addmm.out"] == 1
    assert json.loads(json.dumps(described.to_json()))["methods"][0]["inputs"][0]["shape"][0] == {
        "name": "",
        "min": 0,
        "max": 8,
    }
    assert "XnnpackBackend: 1 part" in str(load(samples["xnnpack"].path).describe())


@pytest.fixture
def signed(samples: dict[str, Any], tmp_path: Path) -> Callable[..., Program]:
    def make(version: int = 2, **changes: Any) -> Program:
        shutil.copy(samples["dynamic"].path, tmp_path / "p.pte")
        made = {"version": version, "methods": {"forward": {**PORTS, **changes}}}
        (tmp_path / "signature.json").write_text(json.dumps(made))
        return load(tmp_path / "p.pte")

    return make


def test_signature_names_and_bounds(signed: Callable[..., Program], samples: dict[str, Any]) -> None:
    program = signed()
    method = program.describe().method("forward")
    assert [str(p) for p in (*method.inputs, *method.outputs)] == [
        "x: float32[n=2..8, 4]",
        "y: float32[n=2..8, 3]",
        "scores: float32[n=2..8, 3]",
        "sums: float32[n=2..8]",
    ]
    assert method.inputs[0].shape == (Dim(2, 8, "n"), Dim(4, 4))
    assert method.inputs[0].range == (0.0, 255.0)
    x, y = CASES["dynamic"]
    got = program.run({"y": y, "x": x})
    np.testing.assert_allclose(got["scores"], samples["dynamic"].eager(x, y)[0], atol=1e-5)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"x": floats(9, 4), "y": floats(9, 3)}, "input x: float32[n=2..8, 4]: got shape [9, 4]"),
        ({"x": floats(1, 4), "y": floats(1, 3)}, "input x: float32[n=2..8, 4]: got shape [1, 4]"),
        ({"x": floats(2, 5), "y": floats(2, 3)}, "input x: float32[n=2..8, 4]: got shape [2, 5]"),
        ({"x": floats(2, 4, 1), "y": floats(2, 3)}, "input x: float32[n=2..8, 4]: got shape [2, 4, 1]"),
        ({"x": floats(2, 4), "y": floats(3, 3)}, "input 'y': dimension n is 3, but 2 in input 'x'"),
        ({"x": np.zeros((2, 4)), "y": floats(2, 3)}, "input 'x': expected float32, got float64"),
        ({"x": floats(2, 4)}, "missing input y: float32[n=2..8, 3]"),
        ({"x": floats(2, 4), "yy": floats(2, 3)}, "no input 'yy'; inputs: x, y; did you mean 'y'?"),
        ([floats(2, 4)], "1 inputs given, 2 expected: x: float32[n=2..8, 4], y: float32[n=2..8, 3]"),
    ],
)
def test_inputs_that_do_not_fit(signed: Callable[..., Program], inputs: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        signed().run(inputs)
    assert str(caught.value) == message


def test_a_number_in_the_program_takes_no_other_value(samples: dict[str, Any]) -> None:
    program = load(samples["number"].path)
    np.testing.assert_array_equal(program.run([np.zeros((2, 2), np.float32)])["output0"], np.full((2, 2), 3))
    with pytest.raises(InputError, match="input input1: int = 3: the program accepts only that value, got 4"):
        program.run([np.zeros((2, 2), np.float32), 4])


def test_bfloat16_is_given_as_float32(samples: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="expected bfloat16, got float16"):
        load(samples["bfloat16"].path).run([np.zeros((2, 4), np.float16), floats(2, 3)])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 3}, "signature.json: signature of version 3; this runtime supports 2"),
        (
            {"inputs": []},
            "p.pte: its signature belongs to another program: it names 0 inputs, the program has 2",
        ),
        ({"inputs": None}, "signature.json: not a signature: methods.forward.inputs: expected a list, got null"),
        (
            {"outputs": [*PORTS["outputs"][:1], {"name": "s", "dtype": "int64", "shape": ["n"]}]},
            "p.pte: its signature belongs to another program:"
            " 's' is int64 of rank 1 there and float32 of rank 1 in the program",
        ),
    ],
)
def test_a_signature_of_another_program_is_refused(
    signed: Callable[..., Program], changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ProgramError) as caught:
        signed(**changes)
    assert str(caught.value) == f"{tmp_path}/{message}"


def test_external_data(samples: dict[str, Any], tmp_path: Path) -> None:
    source = samples["external"].path
    program = tmp_path / "external.pte"
    shutil.copy(source, program)
    with pytest.raises(ProgramError, match=r"external.pte: 2 of its tensors are in a \.ptd, and there is none beside"):
        load(program)
    (data,) = source.parent.glob("*.ptd")
    with pytest.raises(ProgramError, match=r"other\.ptd: no such file"):
        load(program, [tmp_path / "other.ptd"])
    expected = samples["external"].eager(*CASES["external"])[0]
    np.testing.assert_allclose(load(program, [data]).run(CASES["external"])["output0"], expected, atol=1e-5)
    shutil.copy(data, tmp_path / "external.ptd")
    shutil.copy(data, tmp_path / "another.ptd")
    found = load(program)
    assert [path for path, _ in found.describe().data] == [str(tmp_path / "external.ptd")]
    np.testing.assert_allclose(found.run(CASES["external"])["output0"], expected, atol=1e-5)


def test_backends_and_kernels_that_this_runtime_lacks_are_named(samples: dict[str, Any], tmp_path: Path) -> None:
    """In a process of its own, since other tests of this one load kernels of another runtime."""
    other = tmp_path / "p.pte"

    def error() -> str:
        code = "import sys, modelbuild_runtime; modelbuild_runtime.load(sys.argv[1])"
        done = subprocess.run([sys.executable, "-c", code, other], capture_output=True, text=True, check=False)
        return done.stderr.splitlines()[-1]

    other.write_bytes(samples["xnnpack"].path.read_bytes().replace(b"XnnpackBackend", b"FoobarkBackend"))
    assert "needs the backend FoobarkBackend, which this runtime lacks" in error()
    other.write_bytes(samples["two"].path.read_bytes().replace(b"aten::addmm", b"aten::adqmm"))
    assert "this runtime has no kernel for aten::adqmm.out" in error()


def test_a_run_that_fails_names_the_reason(samples: dict[str, Any]) -> None:
    with pytest.raises(ProgramError, match="method 'forward' failed: invalid argument: Two input tensors"):
        load(samples["dynamic"].path).run((floats(2, 4), floats(3, 3)))


def test_unknown_method(samples: dict[str, Any]) -> None:
    with pytest.raises(ProgramError, match=r"two\.pte: no method 'backward'; it has: forward"):
        load(samples["two"].path).run(CASES["two"], "backward")


def test_public_names_exist() -> None:
    assert all(hasattr(modelbuild_runtime, name) for name in modelbuild_runtime.__all__)
