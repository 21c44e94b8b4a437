"""Fourier transforms as products with matrices of cosines and sines, in real arithmetic.

The matrices are computed when the program runs: they are not weights, and a backend may fuse or fold them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten

Parts = tuple[Tensor, Tensor]
"""The real and the imaginary part of a complex tensor."""

DIRECT = 1024
"""The longest transform that is one product. A longer transform is split into two, if its length has factors."""


def transform(re: Tensor, im: Tensor | None, dim: int, sign: int, kept: int | None = None) -> Parts:
    """Return the sums over a dimension of length n of x[j] exp(sign 2 pi i j k / n), for all k below `kept` (or n).

    im  None for real numbers
    """
    if dim not in (-1, re.dim() - 1):
        re, im = re.movedim(dim, -1), None if im is None else im.movedim(dim, -1)
        re, im = transform(re, im, -1, sign, kept)
        return re.movedim(-1, dim), im.movedim(-1, dim)
    length = fixed(re.shape[-1])
    kept = length if kept is None else kept
    rows = _rows(length) if length > DIRECT else 1
    if rows == 1:
        cos, sin = _turns(re, length, kept, length)
        return _product(re, im, cos, sin * sign)
    # Cooley and Tukey 1965: j = columns * a + b, k = c + rows * d.
    columns = length // rows
    x = [None if each is None else each.unflatten(-1, (rows, columns)) for each in (re, im)]
    re, im = transform(x[0], x[1], -2, sign)
    cos, sin = _turns(re, rows, columns, length)
    sin = sin * sign
    re, im = re * cos - im * sin, re * sin + im * cos
    re, im = transform(re, im, -1, sign)
    made = [each.transpose(-1, -2).flatten(-2)[..., :kept] for each in (re, im)]
    return made[0], made[1]


def real_from_half(re: Tensor, im: Tensor, length: int) -> Tensor:
    """Return the real numbers whose transform (sign -1, along the last dimension) begins with the given half, times
    their count."""
    half = length // 2 + 1
    re, im = re[..., :half], im[..., :half]
    if length > DIRECT and _rows(length) > 1:
        re, im = (
            torch.cat([each, mirror * each[..., 1 : length - half + 1].flip(-1)], -1)
            for each, mirror in ((re, 1), (im, -1))
        )
        return transform(re, im, -1, 1)[0]
    # All frequencies occur twice, with opposite signs, except zero and, of an even length, the highest.
    times = 2 - (torch.arange(half, device=re.device) * 2 % length == 0).to(re.dtype).unsqueeze(1)
    cos, sin = _turns(re, half, length, length)
    return torch.matmul(torch.cat([re, im], -1), torch.cat([times * cos, -times * sin]))


def fixed(size: Any) -> int:
    """Return a size as an int. Raises NotImplementedError for a size that is known only when the program runs."""
    if isinstance(size, torch.SymInt) and not size.node.is_constant():
        raise NotImplementedError("the length of the transform is a dynamic dimension")
    return int(size)


def _rows(length: int) -> int:
    """Return the largest factor of a length that is at most its square root."""
    return next(each for each in range(math.isqrt(length), 0, -1) if length % each == 0)


def _turns(like: Tensor, rows: int, columns: int, length: int) -> Parts:
    """Return the cosines and sines of 2 pi j k / length: rows j, columns k. Products are reduced as integers, which
    keeps angles exact."""
    j, k = torch.arange(rows, device=like.device), torch.arange(columns, device=like.device)
    precise = torch.promote_types(like.dtype, torch.float32)
    angles = (j.unsqueeze(1) * k % length).to(precise) * (2 * math.pi / length)
    return angles.cos().to(like.dtype), angles.sin().to(like.dtype)


def _product(re: Tensor, im: Tensor | None, cos: Tensor, sin: Tensor) -> Parts:
    """Return rows times (cos + i sin), as one product."""
    matrix = torch.cat([cos, sin], -1)
    x = re
    if im is not None:
        x, matrix = torch.cat([re, im], -1), torch.cat([matrix, torch.cat([-sin, cos], -1)])
    made = torch.matmul(x, matrix)
    return made[..., : cos.shape[1]], made[..., cos.shape[1] :]


def _scaled(parts: Sequence[Tensor], sizes: Sequence[int], normalization: int) -> list[Tensor]:
    """Return parts divided by nothing (0), the square root (1) or the whole (2) of the number of elements."""
    count = math.prod(sizes)
    factor = {0: 1.0, 1: 1 / math.sqrt(count), 2: 1 / count}[normalization]
    return [each if factor == 1 else each * factor for each in parts]


def from_real(x: Tensor, dim: Sequence[int], normalization: int, onesided: bool) -> Parts:
    """Return aten._fft_r2c."""
    *others, last = dim
    sizes = [fixed(x.shape[each]) for each in dim]
    re, im = transform(x, None, last, -1, sizes[-1] // 2 + 1 if onesided else None)
    for each in others:
        re, im = transform(re, im, each, -1)
    re, im = _scaled((re, im), sizes, normalization)
    return re, im


def to_real(re: Tensor, im: Tensor, dim: Sequence[int], normalization: int, last_size: int) -> Tensor:
    """Return aten._fft_c2r."""
    *others, last = dim
    sizes = [*(fixed(re.shape[each]) for each in others), fixed(last_size)]
    for each in others:
        re, im = transform(re, im, each, 1)
    made = real_from_half(re.movedim(last, -1), im.movedim(last, -1), sizes[-1]).movedim(-1, last)
    return _scaled((made,), sizes, normalization)[0]


def between(re: Tensor, im: Tensor, dim: Sequence[int], normalization: int, forward: bool) -> Parts:
    """Return aten._fft_c2c."""
    sizes = [fixed(re.shape[each]) for each in dim]
    for each in dim:
        re, im = transform(re, im, each, -1 if forward else 1)
    re, im = _scaled((re, im), sizes, normalization)
    return re, im


def short_time(
    x: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Any:
    """Return aten.stft of a real signal, which torch.stft has padded. torch's own form changes shapes in place."""
    length = win_length or n_fft
    if window is not None and length < n_fft:
        left = (n_fft - length) // 2
        window = torch.nn.functional.pad(window, (left, n_fft - length - left))
    elif length < n_fft or align_to_window or (window is not None and window.is_complex()):
        raise NotImplementedError("of the form with align_to_window, or win_length without a real window")
    frames = x.unfold(-1, n_fft, hop_length or n_fft // 4)
    frames = frames if window is None else frames * window
    re, im = from_real(frames, [-1], int(normalized), onesided is not False)
    re, im = re.transpose(-1, -2), im.transpose(-1, -2)
    return (re, im) if return_complex else torch.stack([re, im], -1)


TRANSFORMS: Mapping[Any, Callable[..., Any]] = {
    aten._fft_r2c.default: from_real,
    aten._fft_c2r.default: to_real,
    aten._fft_c2c.default: between,
    aten.stft.default: short_time,
}
"""Implementations that take the parts of a complex argument one after the other."""
