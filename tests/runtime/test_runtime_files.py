"""Input files into arrays, output arrays into files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from modelbuild_runtime import Dim, InputError, Port
from modelbuild_runtime.inputs import read_input, read_inputs
from modelbuild_runtime.outputs import write_outputs


def port(dtype: str, *shape: int | Dim, range: tuple[float, float] | None = None) -> Port:
    dims = tuple(Dim.fixed(d) if isinstance(d, int) else d for d in shape)
    return Port("image", "tensor", dtype, dims, tuple(i for i, _ in enumerate(dims)), range=range)


H, W = Dim(2, 64, "h"), Dim(2, 64, "w")
PIXELS = np.random.default_rng(3).integers(0, 256, (4, 6, 3), dtype=np.uint8)
PIXELS[0, 0] = (0, 128, 255)


@pytest.fixture
def png(tmp_path: Path) -> Path:
    path = tmp_path / "p.png"
    Image.fromarray(PIXELS).save(path)
    return path


NCHW, NHWC = PIXELS.transpose(2, 0, 1)[None], PIXELS[None]


@pytest.mark.parametrize(
    ("into", "expected"),
    [
        (port("uint8", 1, 3, 4, 6), NCHW),
        (port("uint8", 1, 4, 6, 3), NHWC),
        (port("uint8", 1, 3, H, W), NCHW),
        (port("uint8", 1, H, W, 3), NHWC),
        (port("uint8", 4, 6, 3), PIXELS),
        (port("uint8", 3, H, W), PIXELS.transpose(2, 0, 1)),
        (port("float32", 1, 3, 4, 6, range=(0, 255)), NCHW.astype(np.float32)),
        (port("float32", 1, 3, 4, 6, range=(0, 1)), (NCHW / 255).astype(np.float32)),
        (port("float32", 1, 3, 4, 6, range=(-1, 1)), (NCHW / 127.5 - 1).astype(np.float32)),
        (port("float16", 1, 4, 6, 3, range=(0, 255)), NHWC.astype(np.float16)),
        (port("bfloat16", 1, 4, 6, 3, range=(0, 255)), NHWC.astype(np.float32)),
    ],
)
def test_pictures(png: Path, into: Port, expected: np.ndarray) -> None:
    got = read_input(into, png)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)


def test_the_ends_of_the_range_are_met(png: Path) -> None:
    got = read_input(port("float32", 1, 3, 4, 6, range=(-1, 1)), png)
    assert got[0, :, 0, 0].tolist() == [-1.0, pytest.approx(0.0039216, abs=1e-6), 1.0]


def test_one_channel_is_grey_and_four_are_rgba(png: Path, tmp_path: Path) -> None:
    grey = np.asarray(Image.fromarray(PIXELS).convert("L"))
    np.testing.assert_array_equal(read_input(port("uint8", 1, 1, 4, 6), png)[0, 0], grey)
    with_alpha = read_input(port("uint8", 1, 4, H, W), png)
    np.testing.assert_array_equal(with_alpha[0, :3], PIXELS.transpose(2, 0, 1))
    assert (with_alpha[0, 3] == 255).all()


def test_palette_grey_and_jpeg_files_become_rgb(tmp_path: Path) -> None:
    path = tmp_path / "grey.png"
    Image.fromarray(PIXELS[..., 0]).save(path)
    np.testing.assert_array_equal(read_input(port("uint8", 1, H, W, 3), path)[0], np.repeat(PIXELS[..., :1], 3, -1))
    path = tmp_path / "p.JPG"
    Image.new("RGB", (6, 4), (200, 100, 50)).save(path, "JPEG")
    np.testing.assert_allclose(read_input(port("uint8", 1, H, W, 3), path)[0, 0, 0], (200, 100, 50), atol=3)


def test_the_upper_bytes_of_16_bits_remain(tmp_path: Path) -> None:
    path = tmp_path / "deep.png"
    Image.fromarray(np.array([[0, 255, 256, 0x1234, 65535]], np.uint16)).save(path)
    assert read_input(port("uint8", 1, 1, 1, 5), path).ravel().tolist() == [0, 0, 1, 0x12, 255]
    assert read_input(port("uint8", 1, 3, 1, 5), path)[0, 2].ravel().tolist() == [0, 0, 1, 0x12, 255]


@pytest.mark.parametrize(("height", "width"), [(4, 6), (2, 3), (8, 5)])
def test_a_picture_of_another_size_is_resized(png: Path, height: int, width: int) -> None:
    wide = Image.fromarray(PIXELS).resize((width, 4), Image.Resampling.BILINEAR)
    expected = np.asarray(wide.resize((width, height), Image.Resampling.BILINEAR))
    for into in (port("uint8", 1, 3, height, width), port("uint8", height, width, 3)):
        got = read_input(into, png, resize=True)
        np.testing.assert_array_equal(got.transpose(0, 2, 3, 1)[0] if got.ndim == 4 else got, expected)
    np.testing.assert_array_equal(read_input(port("uint8", H, W, 3), png, resize=True), PIXELS)


def test_only_a_fixed_height_and_width_take_other_sizes(png: Path, tmp_path: Path) -> None:
    problem = r"expected shape \[1, 3, 8, w=2\.\.64\], got \[1, 3, 4, 6\]; --resize needs a fixed height and width"
    with pytest.raises(InputError, match=problem):
        read_input(port("uint8", 1, 3, 8, W), png, resize=True)
    with pytest.raises(InputError, match="--resize needs a fixed height and width"):
        read_input(port("uint8", 0, 6, 3), png, resize=True)
    np.save(tmp_path / "x.npy", PIXELS)
    with pytest.raises(InputError, match=r"expected shape \[8, 6, 3\], got \[4, 6, 3\]$"):
        read_input(port("uint8", 8, 6, 3), tmp_path / "x.npy", resize=True)


ARRAYS = [
    ("float32", [[1, 2.5], [3, -4]], np.float32),
    ("float16", [[1, 2.5], [3, -4]], np.float16),
    ("bfloat16", [[1, 2.5], [3, -4]], np.float32),
    ("int64", [[1, 2], [2**40, -4]], np.int64),
    ("uint8", [[0, 255], [1, 2]], np.uint8),
    ("bool", [[True, False], [True, True]], np.bool_),
    ("int32", [[1.0, 2.0], [3.0, 4.0]], np.int32),
]


@pytest.mark.parametrize(("dtype", "value", "wanted"), ARRAYS)
def test_json(tmp_path: Path, dtype: str, value: Any, wanted: type) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(value))
    got = read_input(port(dtype, 2, 2), path)
    assert got.dtype == wanted
    assert got.tolist() == value


def test_empty_json_list_and_scalar(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("[]")
    assert read_input(port("int64", Dim(0, 9, "n")), path).shape == (0,)
    path.write_text("3")
    assert read_input(port("float32"), path) == np.float32(3)


def test_npy(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save(path, array)
    np.testing.assert_array_equal(read_input(port("float32", 2, 3), path), array)


@pytest.mark.parametrize(
    ("name", "content", "into", "message"),
    [
        ("x.json", b"[[1,2],[3]]", port("float32", 2, 2), "not nested lists of numbers"),
        ("x.json", b"[1,", port("float32", 2), "not nested lists of numbers: Expecting value"),
        ("x.json", b'["a"]', port("float32", 1), "not nested lists of numbers"),
        ("x.json", b"[1.5]", port("int64", 1), "np.float64(1.5) does not fit int64"),
        ("x.json", b"[256]", port("uint8", 1), "np.int64(256) does not fit uint8"),
        ("x.json", b"[1e39]", port("float32", 1), "np.float64(1e+39) does not fit float32"),
        ("x.json", b"[true]", port("float32", 1), "np.True_ does not fit float32"),
        ("x.json", b"[1]", port("bool", 1), "np.int64(1) does not fit bool"),
        ("x.json", b"[1, 2]", port("int64", 3), "expected shape [3], got [2]"),
        ("x.npy", b"junk", port("float32", 1), "is not a .npy file"),
        ("x.npy", b"", port("float32", 1), "is not a .npy file"),
        ("x.png", b"junk", port("uint8", 1, 3, H, W), "is no picture: cannot identify image file"),
        ("x.pt", b"junk", port("float32", 1), "is a pickle, which may run code when read; save the array with numpy"),
        ("x.bmp", b"junk", port("float32", 1), "can't read {path}; expected one of .npy, .json, .png, .jpg, .jpeg"),
        ("x.npy", None, port("float32", 1), "No such file or directory"),
        ("x.png", None, port("uint8", 1, 3, H, W), "No such file or directory"),
    ],
)
def test_files_that_do_not_fit(tmp_path: Path, name: str, content: bytes | None, into: Port, message: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_input(into, path)
    assert str(caught.value).startswith("input 'image': ")
    assert str(path) in str(caught.value)
    assert message.format(path=path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_npy_of_the_wrong_type_or_with_objects(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.zeros(2))
    with pytest.raises(InputError, match="expected float32, got float64"):
        read_input(port("float32", 2), path)
    np.save(path, np.array([object()]), allow_pickle=True)
    with pytest.raises(InputError, match=r"is not a \.npy file: .*Python objects"):
        read_input(port("float32", 1), path)


def test_npy_of_more_than_the_input_takes_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({1 << 40},), }}".encode()
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    os.truncate(path, path.stat().st_size + (4 << 40))  # holes: the disk has none of it
    with pytest.raises(InputError, match=r"expected shape \[4\], got \[1099511627776\]"):
        read_input(port("float32", 4), path)


@pytest.mark.parametrize(
    ("into", "message"),
    [
        (port("uint8", 1, 3, 5, 6), "expected shape [1, 3, 5, 6], got [1, 3, 4, 6]"),
        (port("uint8", 1, 3, Dim(8, 64, "h"), W), "expected shape [1, 3, h=8..64, w=2..64], got [1, 3, 4, 6]"),
        (port("int64", 1, 3, 4, 6), "a picture needs uint8 or a float type, not int64"),
        (port("float32", 1, 3, 4, 6), "does not declare which range 0..255 is mapped to"),
        (port("float32", 4, 6), "shape [4, 6] takes no picture"),
        (port("uint8", 2, 3, 4, 6), "shape [2, 3, 4, 6] takes no picture"),
        (port("uint8", 1, 5, 4, 6), "shape [1, 5, 4, 6] takes no picture"),
    ],
)
def test_pictures_that_do_not_fit(png: Path, into: Port, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_input(into, png)
    assert message in str(caught.value)


def test_unknown_names_and_inputs_that_take_no_file(tmp_path: Path) -> None:
    ports = (port("float32", 1), Port("n", "int", constant=3))
    with pytest.raises(InputError, match="no input 'imgae'; inputs: image, n; did you mean 'image'\\?"):
        read_inputs(ports, {"imgae": tmp_path / "x.npy"})
    with pytest.raises(InputError, match="input n: int = 3 is fixed in the program; it takes no file"):
        read_inputs(ports, {"n": tmp_path / "x.npy"})


def test_outputs_as_npy_and_json(tmp_path: Path) -> None:
    outputs = {"a/b": np.array([[1.5, 2], [3, 4]], np.float32), "n": np.array(3)}
    paths = write_outputs(outputs, tmp_path / "deep" / "out")
    assert {n: p.name for n, p in paths.items()} == {"a/b": "a_b.npy", "n": "n.npy"}
    for name, path in paths.items():
        loaded = np.load(path)
        np.testing.assert_array_equal(loaded, outputs[name])
        assert loaded.dtype == outputs[name].dtype
    paths = write_outputs({**outputs, "x": np.array([np.nan, np.inf, -np.inf, 1])}, tmp_path, "json")
    assert json.loads(paths["a/b"].read_text()) == [[1.5, 2], [3, 4]]
    assert json.loads(paths["n"].read_text()) == 3
    assert json.loads(paths["x"].read_text()) == ["NaN", "Infinity", "-Infinity", 1]
