"""Portable nodes that are not in executorch's list of types: those that can run do, and others are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.exir import EdgeCompileConfig, to_edge
from torch import Tensor, nn

from modelbuild.step import StepError
from modelbuild_rules.backend_api.steps.failure import library_failures
from modelbuild_rules.backend_api.steps.nodes import computing
from modelbuild_rules.program.steps.lowering.portable import unlisted_types
from modelbuild_rules.program.steps.lowering.trial import runs


class Mel(nn.Module):
    """A mel spectrogram and a gate on its mean, as of nets that detect voices."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(32))
        self.register_buffer("filters", torch.rand(8, 17))
        self.layer = nn.LSTMCell(8, 4)

    def forward(self, wave: Tensor) -> Tensor:
        power = torch.stft(wave, 32, 16, window=self.window, return_complex=True).abs().square()
        return torch.sigmoid(self.layer(torch.log(self.filters @ power + 1e-5).mean(2))[0])


class Video(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Conv3d(2, 4, 3, padding=1), nn.ReLU(), nn.Conv3d(4, 2, (2, 1, 1), bias=False))

    def forward(self, clip: Tensor) -> Tensor:
        return self.net(clip)


class Item(nn.Module):
    """Reads a float out of a tensor."""

    def forward(self, x: Tensor) -> Tensor:
        return x * (x.sum().item() * 2 + 1) - x.max().item()


class Branches(nn.Module):
    """Branches with layers that XNNPACK takes elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.yes, self.no = (nn.Linear(4, 4) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        return torch.cond(x.sum() > 0, self.yes, lambda x: self.no(x).relu(), (x,))


class Spectrum(nn.Module):
    """Complex operators."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z = torch.fft.fft(x * 2)
        return (z * 1j).angle(), torch.fft.ifft(z * 2).real


NETS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mel": (Mel, (1, 160)),
    "video": (Video, (1, 2, 3, 6, 6)),
    "branches": (Branches, (2, 4)),
    "item": (Item, (3, 4)),
    "spectrum": (Spectrum, (2, 8)),
}


class All(nn.Module):
    """The first three nets in one program."""

    def __init__(self) -> None:
        super().__init__()
        self.nets = nn.ModuleList(make() for make, _ in list(NETS.values())[:3])

    def forward(self, *given: Tensor) -> tuple[Tensor, ...]:
        return tuple(net(x) for net, x in zip(self.nets, given, strict=True))


def check(net: nn.Module, inputs: tuple[Tensor, ...], lower: Any, execute: Any, folder: Path) -> Any:
    lowered = lower(torch.export.export(net.eval(), inputs), folder / "made")
    expected = net(*inputs)
    for one, other in zip(
        execute(lowered.pte, inputs), expected if isinstance(expected, tuple) else (expected,), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    return lowered


def test_programs_whose_kernels_can_run_them_run(lower: Any, execute: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    inputs = tuple(torch.rand(*shape) for _, shape in list(NETS.values())[:3])
    lowered = check(All(), inputs, lower, execute, tmp_path)
    assert "aten._fft_r2c.default" not in lowered.nodes("portable")
    assert "aten.convolution.default" not in lowered.nodes("portable")
    assert "aten.convolution.default" in lowered.nodes("xnnpack")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "item" else [pytest.mark.exhaustive]) for name in NETS]
)
def test_each_program_runs(name: str, lower: Any, execute: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    make, shape = NETS[name]
    check(make(), (torch.rand(*shape),), lower, execute, tmp_path)


class Kinds(nn.Module):
    def forward(self, x: Tensor, clip: Tensor) -> tuple[Tensor, ...]:
        z = torch.fft.rfft(x)
        up = nn.functional.conv_transpose3d(clip, torch.ones(2, 2, 2, 2, 2))
        return z.abs(), torch.view_as_real(-z), up, x.split(4, 1)[0]


def test_a_node_is_tried_on_its_kernel() -> None:
    program = torch.export.export(Kinds(), (torch.randn(2, 8), torch.randn(1, 2, 3, 3, 3)))
    edge = to_edge(program, compile_config=EdgeCompileConfig(_check_ir_validity=False)).exported_program()
    found = {name: (bool(unlisted_types(node)), runs(node)) for name, node in computing(edge.graph_module)}
    assert found["aten_abs_default"] == (True, True)
    assert found["aten_neg_default"] == (True, False)
    assert found["aten_convolution_default"] == (True, False)
    assert found["aten_split_with_sizes_copy_default"] == (False, True)


def test_a_program_that_no_kernel_can_run_is_refused_with_the_operator_and_advice(lower: Any, tmp_path: Path) -> None:
    class Branched(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.ConvTranspose3d(2, 2, 2)

        def forward(self, x: Tensor) -> Tensor:
            return torch.cond(x.sum() > 0, self.net, lambda x: torch.zeros(1, 2, 4, 4, 4), (x,))

    with pytest.raises(StepError) as error:
        lower(torch.export.export(Branched(), (torch.randn(1, 2, 3, 3, 3),)), tmp_path / "made")
    (line,) = str(error.value).splitlines()
    assert "aten.convolution.default (node submodule_0.aten_convolution_default" in line
    assert "[1, 2, 3, 3, 3], weight [2, 2, 2, 2, 2]; expected the convolution outside of control flow" in line


def test_a_failure_inside_a_library_is_one_line_with_the_operator(capsys: pytest.CaptureFixture[str]) -> None:
    program = torch.export.export(nn.Linear(4, 4), (torch.randn(2, 4),))
    with pytest.raises(StepError) as error, library_failures(program):
        torch.fx.Interpreter(program.graph_module).run(torch.ones(4, 4), torch.ones(4), torch.ones(2, 3))
    (line,) = str(error.value).splitlines()
    assert "cannot lower aten.linear.default (node linear from linear), in its own words: RuntimeError: " in line
    assert "mat1 and mat2 shapes cannot be multiplied" in line
    assert "(in torch/" in line
    assert "Traceback" in capsys.readouterr().err


def test_a_failure_of_modelbuilds_own_code_is_no_ones_fault() -> None:
    with pytest.raises(KeyError), library_failures(None):
        raise KeyError("own")
