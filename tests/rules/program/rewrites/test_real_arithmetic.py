"""Programs that compute with complex numbers equal their forms in real arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from modelbuild.step import StepError
from modelbuild_rules.backend_api.steps.nodes import origin
from modelbuild_rules.program.steps.lowering.rewrites.complex_numbers.fourier import between, from_real, to_real
from modelbuild_rules.program.steps.lowering.rewrites.complex_numbers.rewrite import (
    has_complex_numbers,
    in_real_arithmetic,
)

Operators = dict[str, Callable[[Tensor, Tensor], Tensor]]


def zeroed(z: Tensor) -> Tensor:
    z = z.clone()
    z[0] = 0
    return z


ARITHMETIC: Operators = {
    "times real": lambda z, r: z * r + r * z,
    "times number": lambda z, r: z * 2.5 - z * (1 + 2j) + r * 1j,
    "divided": lambda z, r: z / r + z / (z + 2) + z / 2.0 + 1 / (z + 3),
    "sums": lambda z, r: (z + 1) + (z + r) - (r - z) + 1j,
    "conjugated": lambda z, r: -z * z.conj(),
    "powers": lambda z, r: z**2 + z.square() + z.sqrt() + z.exp() + (z + 2).log(),
    "in place": lambda z, r: (z * 1).mul_(2).add_(1) + zeroed(z),
    "constants": lambda z, r: z * torch.tensor(1j) + torch.full((3, 5), 1j),
    "wide": lambda z, r: z.to(torch.complex128) * 2,
}
PARTS: Operators = {
    "abs": lambda z, r: z.abs() + torch.linalg.vector_norm(z, dim=1, keepdim=True),
    "angle": lambda z, r: z.angle(),
    "parts": lambda z, r: z.real * z.imag,
    "polar": lambda z, r: torch.polar(r, r) + torch.complex(r, r * 2) + z.sgn(),
}
MOVED: Operators = {
    "cat": lambda z, r: torch.cat([z, z], 1) + torch.stack([z, z]).flatten(1).reshape(3, 10),
    "where": lambda z, r: torch.where(r > 0.5, z, z * 2) + torch.where(r > 0.5, z, 0) + z.masked_fill(r > 0.5, 0),
    "roll": lambda z, r: z.roll(1, 0) + z.flip(0) + torch.fft.fftshift(z),
    "padded": lambda z, r: nn.functional.pad(z, (1, 2)),
    "shapes": lambda z, r: z.reshape(5, 3).permute(1, 0).contiguous() + z.view(-1).view(3, 5) + z[None].squeeze(0),
    "indexed": lambda z, r: z[torch.tensor([0, 2])] + z.narrow(0, 1, 2) + z.unbind(0)[1] + z.split([1, 2], 0)[1],
    "reduced": lambda z, r: z.sum(-1) + z.mean(-1) + z.cumsum(0)[:, 0] + z.chunk(5, 1)[0][:, 0],
    "expanded": lambda z, r: z[None].expand(2, 3, 5),
}
PRODUCTS: Operators = {
    "mm": lambda z, r: z @ z.T + r.to(torch.complex64) @ z.T,
    "mv": lambda z, r: z @ z[0],
    "bmm": lambda z, r: torch.bmm(z[None], z.T[None]),
    "addmm": lambda z, r: torch.addmm(z[:, :3], z, z.T),
    "einsum": lambda z, r: torch.einsum("ij,kj->ik", z, z.conj()),
    "adjoint": lambda z, r: z.mH @ z,
}
FOURIER: Operators = {
    "fft": lambda z, r: torch.fft.fft(z) + torch.fft.ifft(z),
    "rfft": lambda z, r: torch.fft.rfft(r, n=8),
    "irfft": lambda z, r: torch.fft.irfft(z, n=12, norm="ortho"),
    "two dimensions": lambda z, r: torch.fft.fft2(r) + torch.fft.ifft2(z),
    "two real dimensions": lambda z, r: torch.fft.irfft2(torch.fft.rfft2(r), s=(3, 5)),
    "hermitian": lambda z, r: torch.fft.hfft(z),
}
TABLES = {"arithmetic": ARITHMETIC, "parts": PARTS, "moved": MOVED, "products": PRODUCTS, "fourier": FOURIER}


def sample(cases: Iterable[Any], quick: Any) -> list[Any]:
    """Return cases, all but one of them for `make test-all` only."""
    return [each if each == quick else pytest.param(each, marks=pytest.mark.exhaustive) for each in cases]


class Each(nn.Module):
    """Applies each operator to a complex and a real tensor. Results are real."""

    def __init__(self, operators: Operators) -> None:
        super().__init__()
        self.operators = operators

    def forward(self, x: Tensor, r: Tensor) -> tuple[Tensor, ...]:
        made = [operator(torch.view_as_complex(x), r) for operator in self.operators.values()]
        return tuple(torch.view_as_real(each.resolve_conj()) if each.is_complex() else each for each in made)


def rewritten(module: nn.Module, *given: Tensor, **options: Any) -> ExportedProgram:
    """Return a program in real arithmetic."""
    program = in_real_arithmetic(torch.export.export(module.eval(), given, **options))
    values = [node.meta.get("val") for node in program.graph.nodes]
    assert not any(isinstance(each, Tensor) and each.is_complex() for each in values)
    return program


def check(module: nn.Module, *given: Tensor, tolerance: float = 1e-5) -> None:
    made, expected = rewritten(module, *given).module()(*given), module(*given)
    for one, other in zip(made, expected, strict=True) if isinstance(expected, tuple) else [(made, expected)]:
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance * max(1.0, float(other.abs().max())))


@pytest.mark.parametrize("table", sample(TABLES, "arithmetic"))
def test_operators_equal_their_form_of_pairs(table: str) -> None:
    torch.manual_seed(0)
    check(Each(TABLES[table]), torch.randn(3, 5, 2), torch.rand(3, 5) + 0.1)


EXTREME = [1e-25 - 2e-25j, -3e25 + 1e25j, 0, -4 + 0j, complex(-4, -0.0), 2e38 + 1e30j, 1e-30 + 1e20j]
ENDLESS = [complex(math.inf, 1), complex(-math.inf, 1), complex(2, -math.inf), complex(math.nan, 1)]
ENDLESS += [complex(math.inf, math.nan), complex(math.nan, math.inf), complex(-math.inf, math.inf)]


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["abs", "angle", "log", "sqrt", "reciprocal", "divided"])
def test_great_small_and_infinite_numbers(name: str, kind: torch.dtype) -> None:
    class Net(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            z = torch.view_as_complex(x)
            made = torch.full(z.shape, 1 + 2j) / z if name == "divided" else getattr(z, name)()
            return torch.view_as_real(made) if made.is_complex() else made

    x = torch.view_as_real(torch.tensor(EXTREME + ENDLESS).to(torch.promote_types(kind, torch.complex32)))
    made, expected = rewritten(Net(), x).module()(x), Net()(x)
    torch.testing.assert_close(made, expected, rtol=1e-6, atol=0, equal_nan=True)


@pytest.mark.parametrize("length", [1, 2, 5, 400, 512, 1024, 1031, 2062, 4096])
def test_transforms_of_any_length_equal_torchs(length: int) -> None:
    """1031 is prime; 2062 and 4096 are split."""
    torch.manual_seed(0)
    x = torch.randn(3, length, dtype=torch.float64)
    half, whole = torch.fft.rfft(x), torch.fft.fft(x, norm="ortho")
    for (re, im), expected in (
        (from_real(x.float(), [1], 0, True), half),
        (between(x.float(), torch.zeros(3, length), [1], 1, True), whole),
    ):
        assert (torch.complex(re, im) - expected).abs().max() < 2e-6 * expected.abs().max()
    assert (to_real(half.real.float(), half.imag.float(), [1], 2, length) - x).abs().max() < 1e-5


class Spectrogram(nn.Module):
    """A mel spectrogram, computed as torchaudio's MelSpectrogram does."""

    def __init__(self, n_fft: int) -> None:
        super().__init__()
        self.n_fft = n_fft
        self.register_buffer("window", torch.hann_window(n_fft))
        self.register_buffer("filters", torch.rand(n_fft // 2 + 1, 20))

    def forward(self, wave: Tensor) -> Tensor:
        options = {"center": True, "pad_mode": "reflect", "normalized": False, "onesided": True}
        spectrum = torch.stft(
            wave, self.n_fft, self.n_fft // 4, self.n_fft, self.window, **options, return_complex=True
        )
        return torch.matmul(spectrum.abs().pow(2.0).transpose(-1, -2), self.filters).transpose(-1, -2)


@pytest.mark.parametrize("n_fft", sample((400, 512, 1024), 400))
def test_a_mel_spectrogram(n_fft: int) -> None:
    torch.manual_seed(0)
    check(Spectrogram(n_fft), torch.randn(1, 3 * n_fft), tolerance=1e-5)


def test_a_signals_length_may_be_dynamic() -> None:
    torch.manual_seed(0)
    net = Spectrogram(64)
    program = rewritten(net, torch.randn(1, 320), dynamic_shapes=({1: 16 * Dim("frames", min=8, max=200)},))
    wave = torch.randn(1, 800)
    torch.testing.assert_close(program.module()(wave), net(wave), rtol=1e-4, atol=1e-4)


class Denoised(nn.Module):
    """Scales a spectrum, and returns to the signal."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(64))

    def forward(self, wave: Tensor) -> Tensor:
        spectrum = torch.stft(wave, 64, 16, window=self.window, return_complex=True)
        size = torch.relu(spectrum.abs() - 0.1)
        return torch.istft(torch.polar(size, spectrum.angle()), 64, 16, window=self.window)


def test_a_signal_from_its_changed_spectrum() -> None:
    torch.manual_seed(0)
    check(Denoised(), torch.randn(1, 400))


class Rotated(nn.Module):
    """Rotary positions with a complex buffer, as Llama's original code has them."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("turns", torch.polar(torch.ones(6, 4), torch.rand(6, 4)))

    def forward(self, x: Tensor) -> Tensor:
        return torch.view_as_real(torch.view_as_complex(x.reshape(2, 6, 4, 2)) * self.turns).flatten(2)


def test_a_complex_buffer_is_stored_as_pairs() -> None:
    torch.manual_seed(0)
    net, x = Rotated(), torch.randn(2, 6, 8)
    program = in_real_arithmetic(torch.export.export(net, (x,)))
    assert program.state_dict["turns"].shape == (6, 4, 2)
    check(net, x)


def test_a_program_without_complex_numbers_has_none() -> None:
    assert not has_complex_numbers(torch.export.export(nn.Linear(4, 4), (torch.randn(2, 4),)))


def test_complex_numbers_in_a_branch_are_an_error() -> None:
    class Branched(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.cond(x.sum() > 0, lambda x: torch.view_as_complex(x).abs(), lambda x: x[..., 0] * 1, (x,))

    program = torch.export.export(Branched(), (torch.randn(3, 2),))
    assert has_complex_numbers(program)
    with pytest.raises(StepError, match="complex numbers in a branch of control flow; expected real numbers there"):
        in_real_arithmetic(program)


def test_rewritten_nodes_have_the_origin_of_their_node() -> None:
    program = rewritten(Spectrogram(64), torch.randn(1, 200))
    (product,) = (node for node in program.graph.nodes if node.target is torch.ops.aten.mm.default)
    assert origin(product) == "stft"


def test_every_operator_without_a_form_of_pairs_is_in_the_error() -> None:
    class Sorted(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            z = torch.view_as_complex(x)
            return torch.linalg.inv(z).real, torch.linalg.det(z).abs(), z.abs()

    with pytest.raises(StepError) as error:
        in_real_arithmetic(torch.export.export(Sorted(), (torch.randn(3, 3, 2),)))
    (line,) = str(error.value).splitlines()
    assert "aten.linalg_inv.default (node" in line
    assert "aten.linalg_det.default (node" in line
    assert "aten.abs" not in line
