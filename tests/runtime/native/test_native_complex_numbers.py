"""Programs that compute with complex numbers, which become pairs of real numbers: Fourier transforms, and the sizes of
great, small and infinite numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tests.portable_program import build_program
from tests.runtime.native.kernel_results import NAN, Run, compare, run, uniform

HANN, HAMMING = torch.hann_window(64), torch.hamming_window(48)


def spectrum(x: Tensor) -> Tensor:
    return torch.stft(x, 64, 16, window=HANN, return_complex=True)


def denoised(x: Tensor) -> Tensor:
    found = spectrum(x)
    return torch.istft(torch.polar(torch.relu(found.abs() - 0.1), found.angle()), 64, 16, window=HANN, length=400)


TRANSFORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "rfft": lambda x: torch.fft.rfft(x).abs(),
    "rfft2": lambda x: torch.view_as_real(torch.fft.rfft2(x.reshape(-1, 20, 20))),
    "irfft": lambda x: torch.fft.irfft(torch.fft.rfft(x) * 2, n=400),
    "fft": lambda x: torch.view_as_real(torch.fft.fft(x, norm="ortho")),
    "ifft": lambda x: torch.fft.ifft(torch.fft.fft(x) * 1j).imag,
    "stft": lambda x: spectrum(x).abs(),
    "other windows": lambda x: torch.stft(x, 64, win_length=48, window=HAMMING, return_complex=True).angle().cos(),
    "istft": denoised,
}


class Transforms(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(each(x) for each in TRANSFORMS.values())


class Sizes(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z = torch.view_as_complex(x)
        return z.abs(), torch.view_as_real(z.sqrt())


def test_transforms_of_a_dynamic_batch(modelbuild_run: Run, tmp_path: Path) -> None:
    net, calls = Transforms(), [uniform(2, 400), uniform(3, 400, seed=1), uniform(1, 400, seed=2)]
    batch = ({0: torch.export.Dim("batch", min=1, max=8)},)
    (tmp_path / "built").mkdir()
    program = build_program(torch.export.export(net, (calls[0],), dynamic_shapes=batch), tmp_path / "built").pte
    for x in calls:
        compare(run(modelbuild_run, program, [x], tmp_path), net(x), 1e-4)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_great_small_and_infinite_numbers(kind: torch.dtype, modelbuild_run: Run, tmp_path: Path) -> None:
    parts = (0, 1e-25, -3e-25, 1e25, -2e25, 2, math.inf, -math.inf, NAN)
    net, x = Sizes(), torch.cartesian_prod(torch.tensor(parts, dtype=kind), torch.tensor(parts, dtype=kind))
    (tmp_path / "built").mkdir()
    program = build_program(torch.export.export(net, (x,)), tmp_path / "built").pte
    for found, expected in zip(run(modelbuild_run, program, [x], tmp_path), net(x), strict=True):
        torch.testing.assert_close(torch.from_numpy(found), expected, rtol=1e-5, atol=0, equal_nan=True)
