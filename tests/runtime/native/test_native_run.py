"""modelbuild-run: the same results and descriptions as the Python API, and one line for an error."""

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
from tests.format_shapes import check_format

LIBRARY = {"product": "TensorRT-RTX", "version": "1.6.1", "libraries": ["libtensorrt_rtx.so.1"]}
Run = Callable[..., subprocess.CompletedProcess[str]]

SAMPLES = (
    "two",
    "xnnpack",
    "dynamic",
    "bfloat16",
    "float16",
    "uint8",
    "number",
    "nonzero",
    "channels_last",
    "external",
    "counter",
)


def inputs_for(program: modelbuild_runtime.Program, seed: int = 7) -> dict[str, np.ndarray]:
    """Random arrays of the largest shapes that a program takes."""
    random = np.random.default_rng(seed)
    arrays = {}
    for port in program.describe().method("forward").inputs:
        if port.kind != "tensor":
            continue
        dtype = np.float32 if port.dtype == "bfloat16" else np.dtype(port.dtype)
        values = random.integers(0, 200, [d.max for d in port.shape]) if port.dtype == "uint8" else None
        found = random.standard_normal([d.max for d in port.shape]) if values is None else values
        arrays[port.name] = found.astype(dtype)
    return arrays


def save(arrays: dict[str, np.ndarray], folder: Path) -> list[str]:
    flags = []
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
        flags.append(f"--input={name}={folder}/{name}.npy")
    return flags


@pytest.mark.parametrize("name", SAMPLES)
def test_gives_what_python_gives(samples: dict[str, Any], modelbuild_run: Run, tmp_path: Path, name: str) -> None:
    path = samples[name].path
    program = modelbuild_runtime.load(path)
    arrays = inputs_for(program)
    done = modelbuild_run(path, *save(arrays, tmp_path), f"--output-dir={tmp_path}/out", "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    expected = program.run(arrays)
    given = list(arrays.values())
    eager = samples[name].eager(*given, *([3] if name == "number" else []))
    report = json.loads(done.stdout)
    assert [port["name"] for port in report["outputs"]] == list(expected)
    for port, reference in zip(report["outputs"], eager, strict=True):
        found = np.load(port["path"])
        assert port["shape"] == list(found.shape)
        tolerance = 3e-2 if name in ("bfloat16", "float16") else 1e-5
        np.testing.assert_allclose(found, expected[port["name"]], atol=1e-5, rtol=1e-5)
        np.testing.assert_allclose(found, reference, atol=tolerance, rtol=tolerance)


def described(description: modelbuild_runtime.Description, *unmet: str) -> dict[str, Any]:
    return {"version": 1, **description.to_json(), "unmet": [*unmet]}


@pytest.mark.parametrize("name", SAMPLES)
def test_describes_as_python_does(samples: dict[str, Any], modelbuild_run: Run, name: str) -> None:
    path = samples[name].path
    description = modelbuild_runtime.load(path).describe()
    assert json.loads(modelbuild_run(path, "--describe", "--json").stdout) == described(description)
    assert modelbuild_run(path, "--describe").stdout == f"{description}\n"


def test_describes_by_the_signature(samples: dict[str, Any], modelbuild_run: Run, tmp_path: Path) -> None:
    program = tmp_path / "p.pte"
    program.write_bytes(samples["dynamic"].path.read_bytes())
    batch = {"min": 1, "max": 8}
    ports: dict[str, Any] = {
        "inputs": [
            {"name": "x", "dtype": "float32", "shape": ["batch", 4], "dynamic": {"batch": batch}, "range": [0, 1]},
            {"name": "y", "dtype": "float32", "shape": ["batch", 3], "dynamic": {"batch": batch}},
        ],
        "outputs": [
            {"name": "sum", "dtype": "float32", "shape": ["batch", 3]},
            {"name": "rest", "dtype": "float32", "shape": ["batch"]},
        ],
    }
    signature = {"version": 2, "methods": {"forward": ports}}
    (tmp_path / "signature.json").write_text(json.dumps(signature))
    description = modelbuild_runtime.load(program).describe()
    assert json.loads(modelbuild_run(program, "--describe", "--json").stdout) == described(description)

    np.save(tmp_path / "x.npy", np.ones((2, 4), np.float32))
    np.save(tmp_path / "y.npy", np.ones((3, 3), np.float32))
    done = modelbuild_run(program, f"--input=x={tmp_path}/x.npy", f"--input=y={tmp_path}/y.npy")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: input 'y': dimension batch is 3, but 2 in input 'x'\n"

    ports["inputs"].pop()
    (tmp_path / "signature.json").write_text(json.dumps(signature))
    done = modelbuild_run(program, "--describe")
    assert done.returncode == 1
    assert "its signature belongs to another program: it names 1 input, the program has 2" in done.stderr


def test_describes_by_the_manifest(
    samples: dict[str, Any], seal_copy: Callable[..., Path], modelbuild_run: Run, tmp_path: Path
) -> None:
    inputs = [{"name": name, "dtype": "float32", "shape": ["n", size]} for name, size in (("x", 4), ("y", 3))]
    outputs = [{"name": "a", "dtype": "float32", "shape": ["n", 3]}, {"name": "b", "dtype": "float32", "shape": ["n"]}]
    facts: dict[str, Any] = {
        "signature": {"version": 2, "methods": {"forward": {"inputs": inputs, "outputs": outputs}}},
        "device": {"arch": "aarch64", "os": "linux", "compute_capabilities": ["8.7", "11.0"]},
        "versions": {"torch": "2.14.0", "executorch": "1.5.1"},
        "parts": [{"id": "p0", "backend": "xnnpack", "bytes": 12, "sha256": "ab" * 32, "requires": LIBRARY}],
        "kernels": [{"library": "own", "operators": ["own::a.out", "own::b.out"]}],
    }
    path = seal_copy(samples["dynamic"].path, tmp_path / "p.pte", **facts)
    description = modelbuild_runtime.load(path).describe()
    assert [port.name for port in description.method("forward").inputs] == ["x", "y"]
    unmet = "the program is for aarch64; this runtime is for x86_64"
    told = json.loads(modelbuild_run(path, "--describe", "--json").stdout)
    assert told == described(description, unmet)
    assert told["parts"][0]["requires"] == LIBRARY
    check_format("description", told, maps=("versions", "methods[].operators"))
    text = f"{description}\n  this machine cannot run it: {unmet}\n"
    assert modelbuild_run(path, "--describe").stdout == text
    kernels: list[Any] = [[{"library": "own"}], [{"library": 1, "operators": []}], {"library": "own"}]
    damaged: list[dict[str, Any]] = [{"device": "x"}, {"versions": {"torch": 2}}, {"parts": [{"id": "p0"}]}]
    for changes in [*damaged, {"signature": []}, *({"kernels": each} for each in kernels)]:
        seal_copy(samples["dynamic"].path, path, **{**facts, **changes})
        done = modelbuild_run(path, "--describe")
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
        assert done.stderr.startswith(f"error: {path}: ")


def test_calls_one_after_another_keep_the_programs_state(
    samples: dict[str, Any], modelbuild_run: Run, tmp_path: Path
) -> None:
    path, folder = samples["counter"].path, tmp_path / "out"
    arrays = [np.full((1,), value, np.float32) for value in (1.0, 10.0, 100.0)]
    flags = []
    for number, array in enumerate(arrays):
        np.save(tmp_path / f"x{number}.npy", array)
        name = modelbuild_runtime.load(path).describe().method("forward").inputs[0].name
        flags += [*(["--next"] if number else []), f"--input={name}={tmp_path}/x{number}.npy"]
    done = modelbuild_run(str(path), *flags, f"--output-dir={folder}", "--json")
    assert done.returncode == 0, done.stderr
    program = modelbuild_runtime.load(path)
    expected = [(n, *each) for n, array in enumerate(arrays, 1) for each in program.run([array]).items()]
    found = [(each["call"], each["name"], np.load(each["path"])) for each in json.loads(done.stdout)["outputs"]]
    assert [(call, name) for call, name, _ in found] == [(call, name) for call, name, _ in expected]
    for (*_, one), (*_, other) in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert Path(json.loads(done.stdout)["outputs"][-1]["path"]).parent == folder / "3"


def test_measures(samples: dict[str, Any], modelbuild_run: Run, tmp_path: Path) -> None:
    path = samples["counter"].path
    np.save(tmp_path / "x.npy", np.zeros(1, np.float32))
    flags = [f"--input=input0={tmp_path}/x.npy", f"--output-dir={tmp_path}", "--repeat=5", "--warmup=2"]
    report = json.loads(modelbuild_run(path, *flags, "--json").stdout)
    check_format("modelbuild-run", report)
    assert 1 << 20 < report["peak_memory"] < 1 << 32
    assert report["first_ms"] > 0
    latency = report["latency"]
    assert (latency["runs"], latency["warmup"]) == (5, 2)
    assert 0 < latency["min_ms"] <= latency["median_ms"] <= latency["p95_ms"] <= latency["max_ms"]
    assert np.load(tmp_path / "output0.npy").tolist() == [1.0]  # the written outputs are those of the first run
    lines = modelbuild_run(path, *flags).stdout.splitlines()
    assert lines[0] == "input  input0: float32[1]"
    assert lines[1] == f"output output0: float32[1] -> {tmp_path}/output0.npy"
    assert lines[2].startswith("latency ")
    assert lines[2].endswith("(5 runs after 2)")


def test_reads_what_numpy_writes(samples: dict[str, Any], modelbuild_run: Run, tmp_path: Path) -> None:
    """Column-major arrays and headers of every version."""
    path = samples["two"].path
    x, y = np.arange(8, dtype=np.float32).reshape(2, 4), np.arange(6, dtype=np.float32).reshape(2, 3)
    expected = samples["two"].eager(x, y)[0]
    for version in ((1, 0), (2, 0), (3, 0)):
        for name, array in (("x", x), ("y", y)):
            with (tmp_path / f"{name}.npy").open("wb") as file:
                np.lib.format.write_array(file, np.asfortranarray(array), version=version)
        flags = [f"--input=input0={tmp_path}/x.npy", f"--input=input1={tmp_path}/y.npy", f"--output-dir={tmp_path}"]
        assert modelbuild_run(path, *flags).returncode == 0
        np.testing.assert_allclose(np.load(tmp_path / "output0.npy"), expected, atol=1e-5)


def header(text: str, data: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + data


BAD_NPY = {
    "empty": (b"", "it does not start like one"),
    "text": (b"not an array", "it does not start like one"),
    "cut in the header": (b"\x93NUMPY\x01\x00\xff\x00{'descr'", "its header has no end"),
    "version": (b"\x93NUMPY\x09\x00\x00\x00", "version 9"),
    "huge header": (b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "its header has no end"),
    "objects": (header("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"), "type '|O' are not supported"),
    "big-endian": (header("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }"), "'>f4' are not supported"),
    "no shape": (header("{'descr': '<f4', 'fortran_order': False, }"), "lacks descr or shape"),
    "negative": (header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }"), "is not a number"),
    "overflow": (
        header(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({1 << 40}, {1 << 40}), }}"),
        "its shape is too big",
    ),
    "short": (header("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4), }", b"1234"), "promises 32 bytes"),
    "code": (header("{'descr': __import__('os')}"), "expected ' in its header"),
    "dimensions": (header(f"{{'descr': '<f4', 'fortran_order': True, 'shape': ({'1, ' * 300}), }}", b"1234"), "64"),
    "two shapes": (header("{'descr': '<f4', 'shape': (1,), 'shape': (2,), }", b"1234"), "promises 8 bytes"),
}


@pytest.mark.parametrize("what", BAD_NPY)
def test_refuses_bad_arrays(samples: dict[str, Any], modelbuild_run: Run, tmp_path: Path, what: str) -> None:
    data, reason = BAD_NPY[what]
    (tmp_path / "x.npy").write_bytes(data)
    done = modelbuild_run(samples["counter"].path, f"--input=input0={tmp_path}/x.npy")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {tmp_path}/x.npy is not a readable .npy file: ")
    assert reason in done.stderr
    assert done.stderr.count("\n") == 1


def test_reads_no_more_of_an_array_than_the_input_takes(
    samples: dict[str, Any], modelbuild_run: Run, tmp_path: Path
) -> None:
    x = tmp_path / "x.npy"
    x.write_bytes(header(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({1 << 40},), }}"))
    os.truncate(x, x.stat().st_size + (4 << 40))  # holes: the disk has none of it
    done = modelbuild_run(samples["counter"].path, f"--input=input0={x}")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: input input0: float32[1]: got shape [1099511627776]\n"


@pytest.mark.parametrize("what", ["folder", "pipe", "device"])
def test_other_things_than_files_are_no_arrays(
    samples: dict[str, Any], modelbuild_run: Run, tmp_path: Path, what: str
) -> None:
    os.mkfifo(tmp_path / "pipe")
    path = {"folder": tmp_path, "pipe": tmp_path / "pipe", "device": Path("/dev/zero")}[what]
    done = modelbuild_run(samples["counter"].path, f"--input=input0={path}")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {path}: ")
    assert done.stderr.count("\n") == 1
    done = modelbuild_run(path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {path}: ")
    with pytest.raises(modelbuild_runtime.ProgramError, match=f"^{path}: "):
        modelbuild_runtime.load(path)


def test_says_in_one_line_what_is_wrong(samples: dict[str, Any], modelbuild_run: Run, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 4), np.float32))
    np.save(tmp_path / "d.npy", np.zeros((2, 4), np.float64))
    two = samples["two"].path
    x, d = f"{tmp_path}/x.npy", f"{tmp_path}/d.npy"
    (tmp_path / "no.pte").write_bytes(b"no program, but long enough")
    (tmp_path / "empty.pte").touch()
    whole = two.read_bytes()
    (tmp_path / "cut.pte").write_bytes(whole[: len(whole) // 2])
    sizes = np.array([2, 4], np.int32).tobytes()
    assert sizes in whole
    (tmp_path / "huge.pte").write_bytes(whole.replace(sizes, np.array([2**31 - 1] * 2, np.int32).tobytes()))
    cases: list[tuple[list[str | Path], int, str]] = [
        ([], 2, "expected one program"),
        ([two, "--nonsense"], 2, "unknown option"),
        ([two, "--repeat", "-1"], 2, "--repeat -1: expected a number"),
        ([two, "--input", "x"], 2, "--input x: expected name=file"),
        ([two, f"--input=a={x}", f"--input=a={x}"], 2, "'a' is given twice"),
        ([two, f"--input=input7={x}"], 2, "no input 'input7'; inputs: input0, input1"),
        ([two], 2, "missing input input0: float32[2, 4]"),
        ([two, f"--input=input0={d}", f"--input=input1={x}"], 2, "input 'input0': expected float32, got float64"),
        ([two, f"--input=input0={x}", f"--input=input1={x}"], 2, "input input1: float32[2, 3]: got shape [2, 4]"),
        ([two, "--input=input0=/nowhere.npy"], 2, "/nowhere.npy: No such file or directory"),
        ([two, "--method", "backward"], 2, "no method 'backward'; it has: forward"),
        (["/nowhere.pte"], 1, "/nowhere.pte: No such file or directory"),
        ([tmp_path], 1, "Is a directory"),
        ([tmp_path / "no.pte"], 1, "not an ExecuTorch program"),
        ([tmp_path / "empty.pte"], 1, "not an ExecuTorch program: the file is empty"),
        ([tmp_path / "cut.pte", f"--input=input0={x}"], 1, "not an ExecuTorch program"),
        ([tmp_path / "huge.pte", "--describe"], 1, "a tensor has more bytes than can be counted"),
        ([two, "--plugin=/nowhere.so"], 1, "/nowhere.so: cannot be loaded"),
        ([samples["number"].path, f"--input=input0={x}", f"--input=input1={x}"], 2, "it takes no file"),
        ([two, f"--input=input0={x}", f"--input=input1={tmp_path}/y.npy", "--device-io=0"], 1, "no CUDA delegate"),
    ]
    np.save(tmp_path / "y.npy", np.zeros((2, 3), np.float32))
    for arguments, code, reason in cases:
        done = modelbuild_run(*arguments)
        assert (done.returncode, done.stdout) == (code, ""), (arguments, done)
        assert done.stderr.startswith("error: "), arguments
        assert reason in done.stderr, arguments


def test_survives_damaged_programs(samples: dict[str, Any], modelbuild_run: Run, tmp_path: Path) -> None:
    """Describe arbitrary files: bytes changed at random, at every position."""
    whole = samples["xnnpack"].path.read_bytes()
    random = np.random.default_rng(1)
    for number in range(60):
        damaged = bytearray(whole[: random.integers(8, len(whole))] if number % 3 == 0 else whole)
        for at in random.integers(0, min(len(damaged), 2000), 8):
            damaged[at] = random.integers(0, 256)
        path = tmp_path / "damaged.pte"
        path.write_bytes(damaged)
        done = modelbuild_run(path, "--describe", "--json")
        assert done.returncode in (0, 1), done
        assert (done.returncode == 0) == (done.stderr == "")


def test_a_backend_that_is_not_there_is_named(samples: dict[str, Any], modelbuild_run: Run, tmp_path: Path) -> None:
    path = tmp_path / "p.pte"
    path.write_bytes(samples["xnnpack"].path.read_bytes().replace(b"XnnpackBackend", b"NowhereBackend"))
    done = modelbuild_run(path)
    assert done.returncode == 1
    assert done.stderr == f"error: {path}: needs the backend NowhereBackend, which this runtime lacks (it has none)\n"
