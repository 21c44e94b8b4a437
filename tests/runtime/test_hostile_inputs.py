"""Arbitrary contents of input files and files beside a program: an array, or one error that names the file."""

from __future__ import annotations

import io
import json
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from PIL import Image

from modelbuild_runtime import Dim, InputError, Port, ProgramError
from modelbuild_runtime.files.signature import read_signatures
from modelbuild_runtime.inputs import read_input
from modelbuild_runtime.outputs import write_outputs
from tests.hostile import cases, damaged, mutated, run_property


def port(dtype: str, *shape: int | Dim, range: tuple[float, float] | None = None) -> Port:
    dims = tuple(Dim.fixed(d) if isinstance(d, int) else d for d in shape)
    return Port("image", "tensor", dtype, dims, tuple(i for i, _ in enumerate(dims)), range=range)


NUMBERS = port("float32", 2, 3)
PICTURE = port("float32", 1, 3, Dim(2, 64, "h"), Dim(2, 64, "w"), range=(0, 1))
ZEROS = np.zeros((2, 3), np.float32)


def npy(array: np.ndarray, **options: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def npz() -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, x=ZEROS)
    return file.getvalue()


def picture(kind: str, mode: str = "RGB") -> bytes:
    file = io.BytesIO()
    Image.new(mode, (6, 4)).save(file, kind)
    return file.getvalue()


# A file's name and content, and the input that it is for.
GOOD = (
    *((NUMBERS, "x.npy", npy(array)) for array in (ZEROS, np.asfortranarray(ZEROS))),
    *((NUMBERS, "x.json", text) for text in (b"[[1,2,3],[4,5,6.5]]", b"[[1e3,-2,3],\n [4,5,0]]")),
    *((PICTURE, "x.png", picture("PNG", mode)) for mode in ("RGB", "P", "I;16", "L", "RGBA")),
    *((PICTURE, "x.jpg", picture("JPEG", mode)) for mode in ("RGB", "CMYK", "L")),
)
BAD = (
    (NUMBERS, "x.npy", npz()),
    (NUMBERS, "x.npy", npy(np.array([{}]), allow_pickle=True)),
    (NUMBERS, "x.npy", npy(np.zeros(2, [("é", "f4")]))),
    (NUMBERS, "x.json", b"[" * 100_000),
    (NUMBERS, "x.json", b"[" * 100 + b"]" * 100),
    (NUMBERS, "x.json", b"[[1, 2, " + b"9" * 400 + b"], [4.5, 5, 6]]"),
    (NUMBERS, "x.json", b"[[1, 2, " + b"9" * 5000 + b"], [4.5, 5, 6]]"),
    (NUMBERS, "x.json", b" " * (2 << 20) + b"[[1,2,3],[4,5,6]]"),
    *((PICTURE, "x.png", picture(kind)) for kind in ("GIF", "TIFF", "BMP", "WEBP", "ICO", "PPM")),
)
SHAPES = (
    *("(1000000000000,)", "(-1,)", "(2.5,)", "('a',)", f"({'9' * 400},)", "(2,)" + "*" * 99, "(" * 2000, "-" * 5000),
    *("{" * 3000, "(2,\n", "\\", "(2L, 3L)", "()", "(0, 3)", "None", "(2, 3)"),
)
TYPES = (
    *("'<f4'", "'|O'", "'<f999'", "[('a', '<f4')]", "'<M8'", "'V1000000000'", "((',", "None", "'<f4\\x00'", "'\u0660'"),
)


def headers() -> Iterator[bytes]:
    for shape in SHAPES:
        for kind in TYPES:
            head = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}".encode()
            for version in (1, 2, 3, 9):
                size = len(head).to_bytes(2 if version == 1 else 4, "little")
                yield b"\x93NUMPY" + bytes([version, 0]) + size + head + bytes(24)


def check(into: Port, path: Path, content: bytes) -> bool:
    """Read a file: an array that fits the input, or an InputError that names both."""
    path.write_bytes(content)
    try:
        array = read_input(into, path)
    except InputError as error:
        told = str(error)
    else:
        assert array.dtype == np.float32
        assert len(array.shape) == len(into.shape)
        return True
    assert told.startswith("input 'image': ")
    assert str(path) in told
    assert "\n" not in told
    return False


def test_all_that_is_to_be_damaged_is_good_before(tmp_path: Path) -> None:
    assert [check(into, tmp_path / name, content) for into, name, content in GOOD] == [True] * len(GOOD)


@pytest.mark.parametrize("number", range(len(BAD)))
def test_files_that_are_something_else(tmp_path: Path, number: int) -> None:
    into, name, content = BAD[number]
    assert not check(into, tmp_path / name, content)


@cases(250, 10_000)
def test_damaged_input_files_are_read_or_refused(tmp_path: Path, examples: int) -> None:
    def holds(case: tuple[Port, str, bytes]) -> None:
        into, name, content = case
        check(into, tmp_path / name, content)

    files = st.sampled_from((*GOOD, *BAD[:2]))
    run_property(examples, files.flatmap(lambda f: damaged(f[2]).map(lambda content: (f[0], f[1], content))), holds)


def test_no_header_of_an_array_file_is_believed(tmp_path: Path) -> None:
    good = [header for header in headers() if check(NUMBERS, tmp_path / "x.npy", header)]
    assert len(good) == 5  # of float32 and 2 by 3, in each version that there is, and in both that Python 2 wrote


@pytest.mark.parametrize(
    ("into", "name", "content", "problem"),
    [
        (NUMBERS, "x.npy", npy(ZEROS).replace(b"(2, 3), ", b"(9000000000, 3), ")[:-20], "not a .npy file"),
        (NUMBERS, "x.npy", npy(ZEROS).replace(b"'<f4'", b"'<V900000000'"), "not a .npy file"),
        (PICTURE, "x.png", None, "expected shape [1, 3, h=2..64, w=2..64], got [1, 3, 10000, 10000]"),
    ],
)
def test_nothing_is_allocated_for_a_size_that_does_not_fit(
    tmp_path: Path, into: Port, name: str, content: bytes | None, problem: str
) -> None:
    if content is None:
        file = io.BytesIO()
        Image.new("1", (10_000, 10_000)).save(file, "PNG")
        content = file.getvalue()
    (tmp_path / name).write_bytes(content)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError) as caught:
        read_input(into, tmp_path / name)
    assert problem in str(caught.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KiB


PORTS: dict[str, Any] = {
    "inputs": [
        {"name": "x", "dtype": "float32", "shape": [2, "h"], "dynamic": {"h": {"min": 1, "max": 8}}, "range": [0, 1.5]}
    ],
    "outputs": [{"name": "o", "dtype": "int64", "shape": ["h*2", 1]}],
}
SIGNATURE: dict[str, Any] = {"version": 2, "methods": {"forward": PORTS}}


@cases(250, 10_000)
def test_damaged_signatures_are_read_or_refused(tmp_path: Path, examples: int) -> None:
    path = tmp_path / "signature.json"

    def holds(content: bytes) -> None:
        path.write_bytes(content)
        with suppress(ProgramError):
            signatures = read_signatures(path).values()
            for declared in (port for each in signatures for port in (*each.inputs, *each.outputs)):
                assert all(isinstance(size, (int, str)) for size in declared.shape)
                assert all(0 <= dim.min <= dim.max for dim in declared.dynamic.values())

    texts = mutated(SIGNATURE).map(lambda tables: json.dumps(tables, default=repr).encode())
    run_property(examples, texts | damaged(json.dumps(SIGNATURE).encode()), holds)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"inputs": [{**PORTS["inputs"][0], "range": []}]}, "inputs[0].range: expected [lowest, highest], got []"),
        (
            {"inputs": [{**PORTS["inputs"][0], "range": [0, 10**400]}]},
            "inputs[0].range[1]: expected a finite number",
        ),
        ({"inputs": [{**PORTS["inputs"][0], "shape": [-1]}]}, "inputs[0].shape[0]: expected a whole number of 0"),
        ({"inputs": [{**PORTS["inputs"][0], "shape": [1.0]}]}, "inputs[0].shape[0]: expected a whole number of 0"),
        ({"inputs": PORTS["inputs"] * 2}, 'inputs[1].name: expected each name once, got "x"'),
        ({"outputs": {}}, "outputs: expected a list, got {}"),
        ({"outputs": [[]]}, "outputs[0]: expected an object, got []"),
        ({"outputs": [{"name": None}]}, "outputs[0].shape: expected a list, got null"),
    ],
)
def test_a_wrong_signature_is_told_by_its_place(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    path = tmp_path / "signature.json"
    path.write_text(json.dumps({"version": 2, "methods": {"forward": {**PORTS, **changes}}}))
    with pytest.raises(ProgramError) as caught:
        read_signatures(path)
    assert str(caught.value).startswith(f"{path}: not a signature: methods.forward.{problem}")


def test_outputs_that_would_be_one_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match=r"output 'a_b': another output has the same file .*/a_b\.npy"):
        write_outputs({"a/b": ZEROS, "a_b": ZEROS}, tmp_path)
