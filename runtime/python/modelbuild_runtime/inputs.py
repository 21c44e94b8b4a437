"""Read input files (.npy, .json, pictures) into arrays with the type, layout and range of a program's input."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from modelbuild_runtime.describe import Port
from modelbuild_runtime.dtypes import FLOATS, numpy_type
from modelbuild_runtime.errors import InputError, did_you_mean
from modelbuild_runtime.shapes import Dim, fits, shape_text

if TYPE_CHECKING:
    from PIL.Image import Image

_PICKLES = frozenset({".pt", ".pth", ".pkl"})
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}

# Maximum bytes of a .json: a base, and for each number its size with all digits, on a separate line.
_JSON_BASE = 1 << 20
_JSON_NUMBER = 200


def read_inputs(ports: Sequence[Port], files: Mapping[str, Path], resize: bool = False) -> dict[str, np.ndarray]:
    """Return an array for each file, by the name of the input. Raises InputError with the input and the file.

    resize  give pictures whose size does not fit the height and width of their input
    """
    by_name = {port.name: port for port in ports}
    arrays = {}
    for name, path in files.items():
        if name not in by_name:
            known = ", ".join(by_name) or "none"
            raise InputError(f"no input '{name}'; inputs: {known}{did_you_mean(name, by_name)}")
        if by_name[name].kind != "tensor":
            raise InputError(f"input {by_name[name]} is fixed in the program; it takes no file")
        arrays[name] = read_input(by_name[name], path, resize)
    return arrays


def read_input(port: Port, path: Path, resize: bool = False) -> np.ndarray:
    """Return an array from a file, read by the file's extension.

    .npy   unchanged: type and shape must be the input's
    .json  nested lists of numbers (true and false for bool), converted to the input's type if that is lossless
    .png, .jpg, .jpeg  decoded to RGB (gray for one channel, RGBA for four). Channels are first if dimension 1 is 1, 3
           or 4, last if the last dimension is; if both are, the picture's size decides. For float inputs, 0..255 is
           mapped linearly to the declared range. runtime/run/pictures gives the same bytes
    """
    where = f"input '{port.name}': {path}"
    if path.suffix in _PICKLES:
        raise InputError(f"{where} is a pickle, which may run code when read; save the array with numpy.save")
    if path.suffix.lower() not in _READERS:
        raise InputError(f"input '{port.name}': can't read {path}; expected one of {', '.join(_READERS)}")
    reader, otherwise = _READERS[path.suffix.lower()]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about Python 2's files, or large pictures
            return reader(port, path, resize)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    except Exception as error:  # the parsers of numpy, json and Pillow raise many types
        if isinstance(error, OSError) and error.errno is not None:
            raise InputError(f"{where}: {error.strerror}") from None
        problem = next(iter(str(error).strip().splitlines()), type(error).__name__)  # without the advice that follows
        raise InputError(f"{where} is {otherwise}: {problem}") from None


def _npy(port: Port, path: Path, _: bool) -> np.ndarray:
    # Mapped, so that memory is allocated only after the file's size is known to match the input.
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(array, np.ndarray):
        array.close()
        raise InputError("expected one array, got a .npz, an archive of arrays")
    wanted = _wanted(port)
    if array.dtype != wanted:
        raise InputError(f"expected {wanted}, got {array.dtype}")
    _check_shape(port, array.shape)
    return np.array(array, order="C")


def _json(port: Port, path: Path, _: bool) -> np.ndarray:
    most = _JSON_BASE + _JSON_NUMBER * math.prod(dim.max for dim in port.shape)
    with path.open("rb") as file:
        text = file.read(most + 1)
    if len(text) > most:
        raise InputError(f"more than {most:,} bytes; expected numbers for shape {shape_text(port.shape)}")
    numbers = np.array(json.loads(text))
    wanted = _wanted(port)
    _check_shape(port, numbers.shape)
    if numbers.size == 0:
        return numbers.astype(wanted)
    if numbers.dtype.kind not in "biuf":
        raise InputError("not nested lists of numbers")
    with np.errstate(over="ignore", invalid="ignore"):
        array = numbers.astype(wanted)
    to_float = port.dtype in FLOATS and numbers.dtype.kind != "b"
    lost = np.isinf(array) & ~np.isinf(numbers) if to_float else array != numbers
    if lost.any() or (numbers.dtype.kind == "b") != (port.dtype == "bool"):
        example = numbers[lost].flat[0] if lost.any() else numbers.flat[0]
        raise InputError(f"{example!r} does not fit {port.dtype}")
    return array


def _picture(port: Port, path: Path, resize: bool) -> np.ndarray:
    axes = _channel_axes(port.shape)
    if not axes:
        raise InputError(
            f"shape {shape_text(port.shape)} takes no picture: neither dimension 1 nor the last one is 1, 3 or 4"
            " channels"
        )
    if port.dtype != "uint8" and port.dtype not in FLOATS:
        raise InputError(f"a picture needs uint8 or a float type, not {port.dtype}")
    if port.dtype != "uint8" and port.range is None:
        raise InputError(
            "the model does not declare which range 0..255 is mapped to; give the input a range, or pass .npy"
        )
    pixels = _pixels(port, path, axes, resize)
    if port.range is None or port.dtype == "uint8":
        return np.ascontiguousarray(pixels)
    low, high = port.range
    return (pixels.astype(np.float64) * ((high - low) / 255.0) + low).astype(_wanted(port))


def _pixels(port: Port, path: Path, axes: Sequence[int], resize: bool) -> np.ndarray:
    """Return the picture's bytes, with channels along the axis in `axes` for which its size fits the port's shape."""
    from PIL.Image import fromarray
    from PIL.Image import open as open_picture

    # Only these formats, because some other formats of Pillow run programs. The size is checked before the picture is
    # decoded.
    with open_picture(path, formats=("PNG", "JPEG")) as picture:
        shapes = {axis: _picture_shape(port, axis, picture.size) for axis in axes}
        axis = next((axis for axis in axes if fits(port.shape, shapes[axis])), axes[0])
        size = picture.size
        if resize and not fits(port.shape, shapes[axis]):
            size = _fixed_size(port, axis, shapes[axis])
        else:
            _check_shape(port, shapes[axis])
        # Pillow would make white of more than 255. The upper bytes remain, as it does with 16 bits of RGB.
        decoded = fromarray((np.asarray(picture) >> 8).astype(np.uint8)) if picture.mode == "I;16" else picture
        converted = decoded.convert(_MODES[port.shape[axis].max])
        pixels = np.asarray(_resized(converted, size))
    pixels = pixels.reshape(*pixels.shape[:2], -1)
    if axis == len(port.shape) - 3:
        pixels = pixels.transpose(2, 0, 1)
    return pixels[None] if len(port.shape) == 4 else pixels


def _fixed_size(port: Port, axis: int, shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the width and height of a port's pictures. Raises InputError with a shape if one is dynamic."""
    high, wide = [dim for i, dim in enumerate(port.shape[-3:], len(port.shape) - 3) if i != axis]
    if high.dynamic or wide.dynamic or not high.max or not wide.max:
        problem = f"expected shape {shape_text(port.shape)}, got {shape_text(shape)}"
        raise InputError(f"{problem}; --resize needs a fixed height and width")
    return wide.max, high.max


def _resized(picture: Image, size: tuple[int, int]) -> Image:
    """Return a picture with another width, and then with another height: versions of Pillow differ in which they change
    first. Colors are weighted with their alpha."""
    from PIL.Image import Resampling

    if size == picture.size:
        return picture
    weighted = picture.convert("RGBa") if picture.mode == "RGBA" else picture
    wide = weighted.resize((size[0], picture.height), Resampling.BILINEAR)
    return wide.resize(size, Resampling.BILINEAR).convert(picture.mode)


def _picture_shape(port: Port, axis: int, size: tuple[int, int]) -> tuple[int, ...]:
    """Return the shape of a picture of a width and height, with channels along an axis of the port's shape."""
    channels = port.shape[axis].max
    first = axis == len(port.shape) - 3
    shape = (channels, size[1], size[0]) if first else (size[1], size[0], channels)
    return (1, *shape) if len(port.shape) == 4 else shape


def _check_shape(port: Port, shape: tuple[int, ...]) -> None:
    if not fits(port.shape, shape):
        raise InputError(f"expected shape {shape_text(port.shape)}, got {shape_text(shape)}")


def _channel_axes(shape: tuple[Dim, ...]) -> list[int]:
    """Return the possible channel axes of a picture in [N, C, H, W], [N, H, W, C], [C, H, W] or [H, W, C]."""
    if len(shape) not in (3, 4) or (len(shape) == 4 and not fits(shape[:1], (1,))):
        return []
    ends = (len(shape) - 3, len(shape) - 1)
    return [axis for axis in ends if not shape[axis].dynamic and shape[axis].max in _MODES]


def _wanted(port: Port) -> np.dtype[np.generic]:
    found = numpy_type(port.dtype)
    if found is None:
        raise InputError(f"numpy has no type for {port.dtype}")
    return np.dtype(found)


# The reader of each extension, and the problem of a file that the reader cannot read.
_READERS: dict[str, tuple[Callable[[Port, Path, bool], np.ndarray], str]] = {
    ".npy": (_npy, "not a .npy file"),
    ".json": (_json, "not nested lists of numbers"),
    ".png": (_picture, "no picture"),
    ".jpg": (_picture, "no picture"),
    ".jpeg": (_picture, "no picture"),
}
