"""Input files into arrays: .npy, .json and pictures, to the type, layout and range that a program's input declares."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from modelbuild_runtime.describe import Port
from modelbuild_runtime.dtypes import FLOATS, numpy_type
from modelbuild_runtime.errors import InputError, did_you_mean
from modelbuild_runtime.shapes import Dim, fits, shape_text

_PICKLES = frozenset({".pt", ".pth", ".pkl"})
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def read_inputs(ports: Sequence[Port], files: Mapping[str, Path]) -> dict[str, np.ndarray]:
    """An array for each file given, by the name of the input. Raises InputError that names the input and the file."""
    by_name = {port.name: port for port in ports}
    arrays = {}
    for name, path in files.items():
        if name not in by_name:
            known = ", ".join(by_name) or "none"
            raise InputError(f"no input '{name}'; inputs: {known}{did_you_mean(name, by_name)}")
        if by_name[name].kind != "tensor":
            raise InputError(f"input {by_name[name]} is fixed in the program; it takes no file")
        arrays[name] = read_input(by_name[name], path)
    return arrays


def read_input(port: Port, path: Path) -> np.ndarray:
    """One array from a file, by the file's extension.

    .npy   as it is: type and shape must be the input's
    .json  nested lists of numbers (true and false for bool), converted to the input's type if that loses nothing
    .png, .jpg, .jpeg  decoded to RGB (grey for one channel, RGBA for four). Channels come first where dimension 1 is
           1, 3 or 4, last where the last one is; where both are, as the picture's size fits. For float inputs 0..255 is
           mapped linearly onto the declared range
    """
    if path.suffix in _PICKLES:
        raise InputError(
            f"input '{port.name}': {path} is a pickle, which may run code when read; save the array with numpy.save"
        )
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"input '{port.name}': can't read {path}; known: {', '.join(_READERS)}")
    try:
        array = reader(port, path)
    except OSError as error:
        raise InputError(f"input '{port.name}': {path}: {error.strerror or error}") from None
    if not fits(port.shape, array.shape):
        raise InputError(
            f"input '{port.name}': {path}: expected shape {shape_text(port.shape)}, got {shape_text(array.shape)}"
        )
    return array


def _npy(port: Port, path: Path) -> np.ndarray:
    try:
        array: np.ndarray = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InputError(f"input '{port.name}': {path} is no .npy file: {error}") from None
    wanted = _wanted(port)
    if array.dtype != wanted:
        raise InputError(f"input '{port.name}': {path}: expected {wanted}, got {array.dtype}")
    return array


def _json(port: Port, path: Path) -> np.ndarray:
    try:
        numbers = np.array(json.loads(path.read_bytes()))
    except ValueError as error:  # of json, and of numpy for lists of unequal lengths
        raise InputError(f"input '{port.name}': {path}: not nested lists of numbers: {error}") from None
    wanted = _wanted(port)
    if numbers.size == 0:
        return numbers.astype(wanted)
    if numbers.dtype.kind not in "biuf":
        raise InputError(f"input '{port.name}': {path}: not nested lists of numbers")
    with np.errstate(over="ignore", invalid="ignore"):
        array = numbers.astype(wanted)
    to_float = port.dtype in FLOATS and numbers.dtype.kind != "b"
    lost = np.isinf(array) & ~np.isinf(numbers) if to_float else array != numbers
    if lost.any() or (numbers.dtype.kind == "b") != (port.dtype == "bool"):
        example = numbers[lost].flat[0] if lost.any() else numbers.flat[0]
        raise InputError(f"input '{port.name}': {path}: {example!r} does not fit {port.dtype}")
    return array


def _picture(port: Port, path: Path) -> np.ndarray:
    axes = _channel_axes(port.shape)
    if not axes:
        raise InputError(
            f"input '{port.name}': {path}: shape {shape_text(port.shape)} takes no picture: neither dimension 1 nor the"
            " last one is 1, 3 or 4 channels"
        )
    if port.dtype != "uint8" and port.dtype not in FLOATS:
        raise InputError(f"input '{port.name}': {path}: a picture needs uint8 or a float type, not {port.dtype}")
    if port.dtype != "uint8" and port.range is None:
        raise InputError(
            f"input '{port.name}': {path}: the model does not declare which range 0..255 is mapped to;"
            " give the input a range, or pass .npy"
        )
    readings = [_pixels(port, path, axis) for axis in axes]
    pixels = next((pixels for pixels in readings if fits(port.shape, pixels.shape)), readings[0])
    if port.range is None or port.dtype == "uint8":
        return np.ascontiguousarray(pixels)
    low, high = port.range
    return (pixels.astype(np.float64) * ((high - low) / 255.0) + low).astype(_wanted(port))


def _pixels(port: Port, path: Path, axis: int) -> np.ndarray:
    """The picture as bytes, its channels along `axis` of the port's shape."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as picture:
            pixels = np.asarray(picture.convert(_MODES[port.shape[axis].max]))
    except (UnidentifiedImageError, Image.DecompressionBombError, SyntaxError, ValueError) as error:
        raise InputError(f"input '{port.name}': {path} is no picture: {error}") from None
    pixels = pixels.reshape(*pixels.shape[:2], -1)
    if axis == len(port.shape) - 3:
        pixels = pixels.transpose(2, 0, 1)
    return pixels[None] if len(port.shape) == 4 else pixels


def _channel_axes(shape: tuple[Dim, ...]) -> list[int]:
    """Where the channels of a picture may lie in [N, C, H, W], [N, H, W, C], [C, H, W] or [H, W, C]."""
    if len(shape) not in (3, 4) or (len(shape) == 4 and not fits(shape[:1], (1,))):
        return []
    ends = (len(shape) - 3, len(shape) - 1)
    return [axis for axis in ends if not shape[axis].dynamic and shape[axis].max in _MODES]


def _wanted(port: Port) -> np.dtype[np.generic]:
    found = numpy_type(port.dtype)
    if found is None:
        raise InputError(f"input '{port.name}': numpy has no type for {port.dtype}")
    return np.dtype(found)


_READERS: dict[str, Callable[[Port, Path], np.ndarray]] = {
    ".npy": _npy,
    ".json": _json,
    ".png": _picture,
    ".jpg": _picture,
    ".jpeg": _picture,
}
