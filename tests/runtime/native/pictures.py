"""Pictures of many forms, as bytes by name."""

from __future__ import annotations

import ctypes
import io
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from PIL import Image

WIDTH, HEIGHT = 19, 13

_ADAM7 = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1))
_GRAY, _RGB, _PALETTE, _GRAY_ALPHA, _RGBA = 0, 2, 3, 4, 6


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(
    samples: np.ndarray[Any, Any],
    kind: int = _RGB,
    depth: int = 8,
    interlaced: bool = False,
    before: bytes = b"",
    size: tuple[int, int] | None = None,
) -> bytes:
    """Return a PNG of samples [height, width, channels], of a color type of the format and a depth of 1 to 16 bits.
    `before`: chunks before the pixels. `size`: another width and height in the header."""
    height, width, _ = samples.shape
    parts = [samples[y::dy, x::dx] for y, x, dy, dx in _ADAM7] if interlaced else [samples]
    rows = [b"\0" + _packed(row, depth) for part in parts if part.size for row in part]
    header = struct.pack(">IIBBBBB", *(size or (width, height)), depth, kind, 0, 0, int(interlaced))
    body = chunk(b"IHDR", header) + before + chunk(b"IDAT", zlib.compress(b"".join(rows))) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def _packed(row: np.ndarray[Any, Any], depth: int) -> bytes:
    if depth == 16:
        return row.astype(">u2").tobytes()
    bits = np.unpackbits(row.reshape(-1, 1).astype(np.uint8), axis=1)
    return np.packbits(bits[:, 8 - depth :]).tobytes()


def pictures() -> dict[str, bytes]:
    """Return pictures of WIDTH and HEIGHT by the name of a file."""
    return dict([*_pngs(), *_jpegs()])


def _samples(channels: int, depth: int = 8) -> np.ndarray[Any, Any]:
    return np.random.default_rng(depth).integers(0, 2**depth, (HEIGHT, WIDTH, channels))


def _pngs() -> Iterator[tuple[str, bytes]]:
    for kind, channels in ((_GRAY, 1), (_RGB, 3), (_GRAY_ALPHA, 2), (_RGBA, 4)):
        for depth in (8, 16):
            for interlaced in (False, True):
                name = f"type {kind}, {depth} bits{', interlaced' * interlaced}.png"
                yield name, png(_samples(channels, depth), kind, depth, interlaced)
    palette = chunk(b"PLTE", np.random.default_rng(1).integers(0, 256, 3 * 200).astype(np.uint8).tobytes())
    for depth in (1, 2, 4, 8):
        samples = _samples(1, depth)
        yield f"gray, {depth} bits.PNG", png(samples, _GRAY, depth, depth == 2)
        entries = min(2**depth, 200)
        short = chunk(b"PLTE", palette[8 : 8 + 3 * entries])
        yield f"palette, {depth} bits.png", png(samples % 200, _PALETTE, depth, depth == 4, short)
        some = chunk(b"tRNS", bytes(range(7, 7 + entries // 2)))
        yield f"palette with alpha, {depth} bits.png", png(samples % 200, _PALETTE, depth, before=short + some)
        for gray in (1, 85, 255):
            transparent = chunk(b"tRNS", struct.pack(">H", gray))
            yield f"gray {gray} transparent, {depth} bits.png", png(samples, _GRAY, depth, before=transparent)
    yield "index outside the palette.png", png(_samples(1), _PALETTE, 8, before=palette)
    for depth in (8, 16):
        samples = _samples(3, depth)
        samples[:, ::3] = 7
        transparent = chunk(b"tRNS", struct.pack(">3H", 7, 7, 7))
        yield f"RGB with a transparent color, {depth} bits.png", png(samples, _RGB, depth, before=transparent)
    samples = _samples(1, 16)
    yield "gray with a transparent color, 16 bits.png", png(samples, _GRAY, 16, before=chunk(b"tRNS", b"\1\7"))
    unused = (
        chunk(b"gAMA", struct.pack(">I", 99999)) + chunk(b"sBIT", b"\3\3\3") + chunk(b"iCCP", b"none\0\0no profile")
    )
    yield "gamma, bits and a wrong profile.png", png(_samples(3), before=unused)
    yield "suggested palette.png", png(_samples(3), before=palette)
    yield "a PNG by another name.jpg", png(_samples(3))


def _jpegs() -> Iterator[tuple[str, bytes]]:
    smooth = np.asarray(Image.fromarray(_samples(3).astype(np.uint8)[:5, :5]).resize((WIDTH, HEIGHT)))
    rgb = Image.fromarray(smooth)
    orientation = Image.Exif()
    orientation[0x0112] = 6
    forms: dict[str, tuple[Image.Image, dict[str, Any]]] = {
        "gray": (rgb.convert("L"), {}),
        "progressive gray": (rgb.convert("L"), {"progressive": True}),
        "CMYK": (rgb.convert("CMYK"), {}),
        "progressive CMYK": (Image.fromarray(_samples(4).astype(np.uint8), "CMYK"), {"progressive": True}),
        "RGB without conversion": (rgb, {"keep_rgb": True}),
        "EXIF orientation": (rgb, {"exif": orientation}),
        "restarts": (rgb, {"restart_marker_blocks": 1}),
        "quality 5": (rgb, {"quality": 5}),
    }
    for sampling in ("4:4:4", "4:2:2", "4:2:0"):
        forms[f"sampling {sampling}"] = (rgb, {"subsampling": sampling})
        forms[f"progressive, sampling {sampling}"] = (rgb, {"subsampling": sampling, "progressive": True})
    for name, (picture, options) in forms.items():
        content = io.BytesIO()
        picture.save(content, "JPEG", **options)
        yield f"{name}.jpg", content.getvalue()
    content = io.BytesIO()
    rgb.save(content, "JPEG", subsampling="4:4:4")
    yield "a JPEG by another name.png", content.getvalue()
    # Which Pillow cannot write.
    for number, sampling in enumerate(("4:4:4", "4:2:2", "4:2:0", "gray", "4:4:0", "4:1:1")):
        yield f"by TurboJPEG, sampling {sampling}.jpeg", _turbojpeg(smooth, number)


def _turbojpeg(rgb: np.ndarray[Any, Any], sampling: int) -> bytes:
    """Return a JPEG with a sampling by its number in turbojpeg.h."""
    library = ctypes.CDLL("libturbojpeg.so.0")
    library.tjInitCompress.restype = ctypes.c_void_p
    content, size = ctypes.c_void_p(), ctypes.c_ulong()
    source = (np.ascontiguousarray(rgb).ctypes.data_as(ctypes.c_void_p), WIDTH, 0, HEIGHT, 0)
    target = (ctypes.byref(content), ctypes.byref(size))
    assert library.tjCompress2(ctypes.c_void_p(library.tjInitCompress()), *source, *target, sampling, 90, 0) == 0
    return ctypes.string_at(content, size.value)
