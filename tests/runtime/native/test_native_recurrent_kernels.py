"""Kernels of recurrent nets in the C++ runtime, against eager mode: cells, directions, layouts, types, lengths."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from modelbuild_rules.model.steps.exported.composite_shapes import shapes_from_inputs
from tests.portable_program import build_program
from tests.runtime.native.kernel_results import Run, run, uniform


@dataclass(frozen=True)
class Case:
    """A net, and sizes of its inputs. `tolerance` is for values between -1 and 1."""

    net: Callable[[], nn.Module]
    shapes: Sequence[Sequence[int]]
    kind: torch.dtype = torch.float32
    dynamic: Mapping[int, str] = field(default_factory=dict)
    tolerance: float = 1e-6
    states: Sequence[Sequence[int]] = ()


class Flat(nn.Module):
    """Returns all results of a net, from an input and optional initial states. Only the net has a 16-bit type."""

    def __init__(self, net: nn.Module, kind: torch.dtype) -> None:
        super().__init__()
        self.net = net.to(kind)
        self.kind = kind

    def forward(self, x: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
        given = (states if len(states) > 1 else states[0],) if states else ()
        every, last = self.net(x.to(self.kind), *given)
        return tuple(each.to(x.dtype) for each in (every, *(last if isinstance(last, tuple) else (last,))))


CASES: Mapping[str, Case] = {
    "lstm": Case(lambda: nn.LSTM(5, 7), [(9, 2, 5)]),
    "lstm_batch_first": Case(lambda: nn.LSTM(5, 16, batch_first=True), [(3, 9, 5)]),
    "lstm_bidirectional": Case(lambda: nn.LSTM(5, 7, num_layers=2, bidirectional=True), [(6, 2, 5)]),
    "lstm_without_biases": Case(lambda: nn.LSTM(4, 6, bias=False, batch_first=True), [(1, 12, 4)]),
    "lstm_projection": Case(lambda: nn.LSTM(5, 12, num_layers=2, proj_size=3, bidirectional=True), [(7, 3, 5)]),
    "lstm_projection_without_biases": Case(lambda: nn.LSTM(5, 9, proj_size=4, bias=False), [(6, 2, 5)]),
    "lstm_initial_states": Case(lambda: nn.LSTM(5, 7), [(6, 2, 5)], states=[(1, 2, 7), (1, 2, 7)]),
    "lstm_unbatched": Case(lambda: nn.LSTM(5, 7, bidirectional=True), [(6, 5)]),
    "lstm_long": Case(lambda: nn.LSTM(8, 64, batch_first=True), [(1, 500, 8)], tolerance=1e-5),
    "lstm_lengths": Case(
        lambda: nn.LSTM(5, 7, bidirectional=True, batch_first=True),
        [(2, 9, 5), (2, 1, 5), (2, 40, 5)],
        dynamic={1: "steps"},
    ),
    "lstm_batches": Case(lambda: nn.LSTM(5, 7), [(6, 3, 5), (6, 1, 5), (6, 40, 5)], dynamic={1: "batch"}),
    "lstm_float64": Case(lambda: nn.LSTM(5, 7), [(9, 2, 5)], torch.float64, tolerance=1e-12),
    "lstm_float16": Case(lambda: nn.LSTM(5, 7), [(9, 2, 5)], torch.float16, tolerance=2e-3),
    "lstm_bfloat16": Case(lambda: nn.LSTM(5, 7), [(9, 2, 5)], torch.bfloat16, tolerance=2e-2),
    "gru": Case(lambda: nn.GRU(5, 7), [(9, 2, 5)]),
    "gru_bidirectional": Case(
        lambda: nn.GRU(16, 24, num_layers=2, bidirectional=True, batch_first=True), [(2, 32, 16)]
    ),
    "gru_without_biases": Case(lambda: nn.GRU(5, 7, bias=False), [(9, 2, 5)]),
    "gru_initial_state": Case(lambda: nn.GRU(5, 7), [(6, 2, 5)], states=[(1, 2, 7)]),
    "gru_lengths": Case(lambda: nn.GRU(5, 7, num_layers=2), [(9, 2, 5), (1, 2, 5), (64, 2, 5)], dynamic={0: "steps"}),
    "gru_float16": Case(lambda: nn.GRU(5, 7), [(9, 2, 5)], torch.float16, tolerance=2e-3),
    "rnn": Case(lambda: nn.RNN(5, 7), [(9, 2, 5)]),
    "rnn_relu": Case(lambda: nn.RNN(5, 7, nonlinearity="relu", bidirectional=True, batch_first=True), [(2, 9, 5)]),
    "rnn_lengths": Case(lambda: nn.RNN(5, 7), [(9, 2, 5), (1, 2, 5)], dynamic={0: "steps"}),
    "rnn_float64": Case(lambda: nn.RNN(5, 7, nonlinearity="relu"), [(9, 2, 5)], torch.float64, tolerance=1e-12),
}

QUICK = frozenset({"lstm_projection", "lstm_lengths", "gru_bidirectional", "rnn_relu"})


def module(case: Case) -> nn.Module:
    torch.manual_seed(1)
    return Flat(case.net(), case.kind).eval()


def build(case: Case, folder: Path) -> Path:
    """Return the program of a case for [portable]."""
    given = inputs(case, case.shapes[0])
    dims = {axis: torch.export.Dim(name, min=1, max=64) for axis, name in case.dynamic.items()}
    shapes = (dims,) if dims else None
    with torch.no_grad(), shapes_from_inputs():
        exported = torch.export.export(module(case), given, dynamic_shapes=shapes, strict=False)
    return build_program(exported, folder).pte


def inputs(case: Case, shape: Sequence[int]) -> tuple[Tensor, ...]:
    kind = torch.float64 if case.kind == torch.float64 else torch.float32
    return tuple(uniform(*each, seed=seed, kind=kind) for seed, each in enumerate([shape, *case.states]))


@pytest.mark.parametrize(
    "name", [each if each in QUICK else pytest.param(each, marks=pytest.mark.exhaustive) for each in CASES]
)
def test_a_recurrent_kernel_computes_the_values_of_eager_mode(name: str, modelbuild_run: Run, tmp_path: Path) -> None:
    case = CASES[name]
    program = build(case, tmp_path)
    assert b"modelbuild_kernels" in program.read_bytes()
    for shape in case.shapes:
        given = inputs(case, shape)
        with torch.no_grad():
            wanted = module(case)(*given)
        found = run(modelbuild_run, program, given, tmp_path)
        for have, want in zip(found, wanted, strict=True):
            assert have.shape == tuple(want.shape)
            np.testing.assert_allclose(have, want.numpy(), rtol=0, atol=case.tolerance)
