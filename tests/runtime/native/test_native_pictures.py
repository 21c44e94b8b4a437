"""modelbuild-run reads pictures as `modelbuild run` does: the same bytes for each form, layout, type and size."""

from __future__ import annotations

import io
import json
import re
import struct
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import modelbuild_runtime
from modelbuild_runtime import InputError
from modelbuild_runtime.inputs import read_input
from tests.runtime.native.pictures import HEIGHT, WIDTH, chunk, pictures, png

Run = Callable[..., subprocess.CompletedProcess[str]]
Size = int | str

H, W = "h", "w"  # dynamic


@pytest.fixture(scope="session")
def echoes(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], Path]:
    """Return a function that returns a program whose output is its input, of a type and a rank."""
    import torch
    from executorch.exir import to_edge_transform_and_lower

    class Echo(torch.nn.Module):
        def forward(self, image: torch.Tensor) -> torch.Tensor:
            return image.clone()

    folder = tmp_path_factory.mktemp("echoes")

    def echo(dtype: str, rank: int) -> Path:
        path = folder / f"{dtype}-{rank}.pte"
        if not path.exists():
            dims = {i: torch.export.Dim(f"d{i}", min=1, max=40) for i in range(rank - 3, rank)}
            example = torch.zeros((1, 5, 6, 7)[-rank:], dtype=getattr(torch, dtype))
            exported = torch.export.export(Echo(), (example,), dynamic_shapes=(dims,))
            with path.open("wb") as file:
                to_edge_transform_and_lower(exported).to_executorch().write_to_file(file)
        return path

    return echo


@pytest.fixture
def program(echoes: Callable[[str, int], Path], tmp_path: Path) -> Callable[..., Path]:
    """Return a function that returns such a program, whose signature declares a shape and a range."""

    def declared(dtype: str, shape: Sequence[Size], range: Sequence[float] | None = None) -> Path:
        path = tmp_path / "echo.pte"
        path.write_bytes(echoes(dtype, len(shape)).read_bytes())
        port = {"dtype": dtype, "shape": [*shape], "dynamic": {n: {"min": 2, "max": 32} for n in (H, W)}}
        ports = {"inputs": [{"name": "image", **port, "range": range}], "outputs": [{"name": "same", **port}]}
        path.with_name("signature.json").write_text(json.dumps({"version": 2, "methods": {"forward": ports}}))
        return path

    return declared


def by_python(program: Path, picture: Path, resize: bool = False) -> np.ndarray[Any, Any]:
    """Return the input that Python reads from a picture; for bfloat16, the nearest values of that type."""
    import torch

    (port,) = modelbuild_runtime.load(program).describe().method("forward").inputs
    array = read_input(port, picture, resize)
    return torch.from_numpy(array).bfloat16().float().numpy() if port.dtype == "bfloat16" else array


def check(run: Run, program: Path, files: Sequence[Path], resize: bool = False) -> None:
    """Check that each file's array is the same in both programs."""
    out = program.parent / "out"
    calls = [argument for file in files for argument in ("--next", f"--input=image={file}")][1:]
    done = run(program, *calls, *(["--resize"] if resize else []), f"--output-dir={out}")
    assert (done.returncode, done.stderr) == (0, "")
    for number, file in enumerate(files, 1):
        got = np.load(out / (f"{number}/same.npy" if len(files) > 1 else "same.npy"))
        expected = by_python(program, file, resize)
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape), file.name
        assert got.tobytes() == expected.tobytes(), (file.name, got.ravel()[:20], expected.ravel()[:20])


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("pictures")
    for name, content in pictures().items():
        (folder / name).write_bytes(content)
    return sorted(folder.iterdir())


@pytest.mark.parametrize("resize", [False, True], ids=["", "resized"])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_each_form_of_a_picture(
    program: Callable[..., Path], modelbuild_run: Run, files: list[Path], channels: int, resize: bool
) -> None:
    size = (HEIGHT - 2, WIDTH + 6) if resize else (HEIGHT, WIDTH)
    check(modelbuild_run, program("uint8", (1, channels, *size)), files, resize)


SHAPES = [(1, 3, HEIGHT, WIDTH), (1, HEIGHT, WIDTH, 3), (3, HEIGHT, WIDTH), (HEIGHT, WIDTH, 3), (1, HEIGHT, WIDTH, 1)]
DYNAMIC = [(1, 3, H, W), (1, H, W, 4), (1, H, W), (H, W, 1), (1, 3, HEIGHT, W), (1, "n", WIDTH, 3)]


@pytest.mark.parametrize("shape", [*SHAPES, *DYNAMIC])
def test_each_layout(
    program: Callable[..., Path], modelbuild_run: Run, files: list[Path], shape: Sequence[Size]
) -> None:
    check(modelbuild_run, program("uint8", shape), files[-3:])


def test_the_size_decides_between_two_layouts(
    program: Callable[..., Path], modelbuild_run: Run, tmp_path: Path
) -> None:
    path = tmp_path / "p.png"
    for shape in ((1, 3, 4, 3), (1, 3, 4, 1), (4, H, 4)):
        for size in ((4, 3), (3, 4), (4, 4), (4, 1)):
            path.write_bytes(png(np.arange(size[0] * size[1] * 3).reshape(*size, 3)))
            both(modelbuild_run, program("uint8", shape), path)


def refusal(program: Path, file: Path, resize: bool) -> str:
    """Return the error with which Python refuses a file, or ""."""
    try:
        by_python(program, file, resize)
    except InputError as error:
        return str(error)
    return ""


def both(run: Run, program: Path, file: Path, *flags: str) -> str:
    """Check that both programs read a file to the same array, or refuse it in one line; return the line."""
    refused = refusal(program, file, bool(flags))
    if not refused:
        check(run, program, [file], bool(flags))
        return ""
    done = run(program, f"--input=image={file}", *flags)
    assert (done.returncode, done.stdout) == (2, ""), refused
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: input 'image': {file}")
    assert refused.startswith(f"input 'image': {file}")
    return line


@pytest.mark.parametrize(
    "range", [(0, 1), (-1, 1), (0, 255), (-2.1179039, 2.64), (1e-9, 3e-7), (-70000, 70000), (0.1, 0.1)]
)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_each_type_and_range(
    program: Callable[..., Path], modelbuild_run: Run, tmp_path: Path, dtype: str, range: tuple[float, float]
) -> None:
    path = tmp_path / "every byte.png"
    path.write_bytes(png(np.arange(256).reshape(16, 16, 1), kind=0))
    check(modelbuild_run, program(dtype, (1, 3, 16, 16), range), [path])
    check(modelbuild_run, program(dtype, (1, 8, 8, 3), range), [path], resize=True)


SIZES = [(1, 1), (2, 3), (5, 40), (40, 5), (13, 19), (14, 19), (13, 18), (40, 40), (39, 37), (7, 9), (1, 19)]


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_resizing_gives_the_bytes_of_pillow(
    program: Callable[..., Path], modelbuild_run: Run, tmp_path: Path, channels: int
) -> None:
    random = np.random.default_rng(channels)
    paths = []
    for size in (*SIZES, (300, 211), (1000, 3), (3, 999), (17, 640)):
        pixels = random.choice([0, 1, 127, 254, 255, *random.integers(0, 256, 9)], (*size, channels)).astype(np.uint8)
        paths.append(tmp_path / f"{size[0]} x {size[1]}.png")
        Image.fromarray(pixels.squeeze(-1) if channels == 1 else pixels).save(paths[-1], compress_level=1)
    for size in SIZES:
        check(modelbuild_run, program("uint8", (1, channels, *size)), paths, resize=True)


def test_a_photo(program: Callable[..., Path], modelbuild_run: Run, repository: Path) -> None:
    photo = repository / "docs/pictures/faces.jpg"
    check(modelbuild_run, program("float32", (1, 3, 40, 40), (-1, 1)), [photo], resize=True)


@pytest.mark.parametrize(
    ("dtype", "shape", "flags", "problem"),
    [
        ("uint8", (1, 3, HEIGHT, 18), [], "expected image: uint8[1, 3, 13, 18], got a picture 19 wide and 13 high"),
        ("uint8", (1, 3, 14, W), [], "got a picture 19 wide and 13 high"),
        ("uint8", (1, 3, 14, W), ["--resize"], "19 wide and 13 high; --resize needs a fixed height and width"),
        ("uint8", (3, "n", 18), ["--resize"], "19 wide and 13 high; --resize needs a fixed height and width"),
        ("uint8", (2, HEIGHT, WIDTH), [], "image: uint8[2, 13, 19] takes no picture: neither dimension 1 nor the last"),
        ("int64", (1, 3, HEIGHT, WIDTH), [], "a picture needs uint8 or a float type, not int64"),
        ("float32", (1, 3, HEIGHT, WIDTH), [], "the model does not declare which range 0..255 is mapped to"),
    ],
)
def test_an_input_that_does_not_fit(
    program: Callable[..., Path],
    modelbuild_run: Run,
    files: list[Path],
    dtype: str,
    shape: Sequence[Size],
    flags: list[str],
    problem: str,
) -> None:
    assert problem in both(modelbuild_run, program(dtype, shape), files[0], *flags)


def jpeg(**options: Any) -> bytes:
    content = io.BytesIO()
    Image.fromarray(np.random.default_rng(5).integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)).save(
        content, "JPEG", **options
    )
    return content.getvalue()


def sized(content: bytes, height: int, width: int) -> bytes:
    """Return a JPEG with another size in the header of its frame."""
    at = content.index(b"\xff\xc0") + 5
    return content[:at] + struct.pack(">HH", height, width) + content[at + 4 :]


PNG = png(np.zeros((HEIGHT, WIDTH, 3), int))
BAD = {
    "empty.png": (b"", "is no picture: expected a PNG or a JPEG"),
    "text.jpg": (b"no picture at all", "is no picture: expected a PNG or a JPEG"),
    "gif.png": (b"GIF89a\1\0\1\0\0\0\0", "is no picture: expected a PNG or a JPEG"),
    "start.png": (PNG[:8], "is no picture: it ends too early"),
    "half.png": (PNG[: len(PNG) - 30], "is no picture: it ends too early"),
    "flipped.png": (PNG[:50] + bytes([PNG[50] ^ 0xFF]) + PNG[51:], "is no picture: "),
    "crc.png": (PNG[:29] + b"\0\0\0\0" + PNG[33:], "is no picture: IHDR: CRC error"),
    "text crc.png": (PNG[:33] + chunk(b"tEXt", b"a\0b")[:-1] + b"\0" + PNG[33:], "is no picture: tEXt: CRC error"),
    "half.jpg": (jpeg()[:-200], "is no picture: Premature end of JPEG file"),
    "start.jpg": (b"\xff\xd8\xff", "is no picture: "),
    "zeros.jpg": (jpeg()[:640] + bytes(99), "is no picture: "),
}


@pytest.mark.parametrize("name", BAD)
def test_a_damaged_picture(program: Callable[..., Path], modelbuild_run: Run, tmp_path: Path, name: str) -> None:
    content, problem = BAD[name]
    (tmp_path / name).write_bytes(content)
    assert problem in both(modelbuild_run, program("uint8", (1, 3, HEIGHT, WIDTH)), tmp_path / name)


def test_a_jpeg_with_a_warning_of_libjpeg_is_refused(
    program: Callable[..., Path], modelbuild_run: Run, tmp_path: Path
) -> None:
    path = tmp_path / "p.jpg"
    path.write_bytes(jpeg()[:-2] + bytes(99) + b"\xff\xd9")
    declared = program("uint8", (1, 3, HEIGHT, WIDTH))
    assert not refusal(declared, path, False)
    done = modelbuild_run(declared, f"--input=image={path}")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert re.search(r"is no picture: Corrupt JPEG data: \d+ extraneous bytes before marker 0xd9$", done.stderr.strip())


LIMIT = 178_956_970


@pytest.mark.parametrize("flags", [[], ["--resize"]], ids=["", "resized"])
@pytest.mark.parametrize(("height", "width"), [(65000, 65000), (20000, 10000), (LIMIT // 3000 + 1, 3000)])
def test_a_big_picture_is_refused_before_it_is_decoded(
    program: Callable[..., Path], modelbuild_run: Run, tmp_path: Path, height: int, width: int, flags: list[str]
) -> None:
    for name, content in (
        ("big.png", png(np.zeros((1, 1, 3), int), size=(width, height))),
        ("big.jpg", sized(jpeg(), height, width)),
    ):
        (tmp_path / name).write_bytes(content)
        line = both(modelbuild_run, program("uint8", (1, 3, HEIGHT, WIDTH)), tmp_path / name, *flags)
        assert "is no picture: more than 178956970 pixels" in line


def test_a_missing_file(program: Callable[..., Path], modelbuild_run: Run, tmp_path: Path) -> None:
    path = program("uint8", (1, 3, HEIGHT, WIDTH))
    assert "no.png: No such file or directory" in both(modelbuild_run, path, tmp_path / "no.png")
    (tmp_path / "folder.png").mkdir()
    assert "folder.png: Is a directory" in both(modelbuild_run, path, tmp_path / "folder.png")


@pytest.mark.parametrize(
    ("file", "library", "package"),
    [("p.png", "libpng16.so.16", "libpng16-16"), ("p.jpg", "libturbojpeg.so.0", "libturbojpeg0")],
)
def test_a_missing_library_is_named_with_its_package(
    program: Callable[..., Path], modelbuild_run: Run, tmp_path: Path, file: str, library: str, package: str
) -> None:
    """A file that is no library hides the system's."""
    (tmp_path / library).write_bytes(b"")
    (tmp_path / file).write_bytes(PNG if file == "p.png" else jpeg())
    path = program("uint8", (1, 3, HEIGHT, WIDTH))
    done = modelbuild_run(path, f"--input=image={tmp_path / file}", LD_LIBRARY_PATH=str(tmp_path))
    needs = f"error: input 'image': {tmp_path / file} needs {library} (Debian's package {package}): "
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith(needs)
