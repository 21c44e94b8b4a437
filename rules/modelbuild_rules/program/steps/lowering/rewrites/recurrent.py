"""Keep the loops of recurrent nets, which executorch's lowering would unroll into ten or more nodes for each step.

A net (nn.LSTM, nn.GRU, nn.RNN) is one operator of an exported program. Here each direction of each of its layers
becomes a linear layer for the inputs of all steps, which backends take, and an operator with a kernel for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.nn import functional

from modelbuild_rules.operators.steps import lowered_operators
from modelbuild_rules.program.steps.lowering.rewrites.decomposition import all_nodes, decomposed

aten = torch.ops.aten


def has_recurrent_nets(program: ExportedProgram) -> bool:
    """Return whether a program has recurrent nets."""
    return any(node.target in _NETS for node in all_nodes(program.graph_module))


def keep_loops(program: ExportedProgram, unrolled: int) -> ExportedProgram:
    """Return an equivalent program whose recurrent nets are operators with kernels. Nets with at most `unrolled` steps
    stay unchanged."""
    lowered_operators.register()

    def decomposition(net: Callable[..., Any]) -> Callable[..., Any]:
        def decompose(x: Tensor, states: Any, *rest: Any) -> Any:
            steps = x.shape[1 if _Net(*rest).batch_first else 0]
            return NotImplemented if isinstance(steps, int) and steps <= unrolled else net(x, states, *rest)

        return decompose

    return decomposed(program, {operator: decomposition(net) for operator, net in _NETS.items()})


@dataclass(frozen=True)
class _Net:
    """The arguments that all nets have; `dropout` is the dropout between layers."""

    params: Sequence[Tensor]
    has_biases: bool
    layers: int
    dropout: float
    train: bool
    bidirectional: bool
    batch_first: bool

    def results(
        self, x: Tensor, states: Sequence[Tensor], loop: Callable[..., Sequence[Tensor]], projected: bool = False
    ) -> tuple[Tensor, ...]:
        """Return the net's results: the results of all steps, and the last states. `loop` computes one direction of one
        layer, from the products of its inputs, the weight and bias of its state, its projection, and its initial
        states."""
        count = 2 + 2 * self.has_biases + projected
        directions = 2 if self.bidirectional else 1
        ends: list[Sequence[Tensor]] = []
        for layer in range(self.layers):
            made = []
            for number in range(layer * directions, (layer + 1) * directions):
                weights = self.params[number * count : (number + 1) * count]
                of_inputs, of_state = weights[2:4] if self.has_biases else (None, None)
                gates = functional.linear(x, weights[0], of_inputs)
                initial = [each.select(0, number) for each in states]
                projection = weights[-1] if projected else None
                reverse = number % directions == 1
                every, *last = loop(gates, weights[1], of_state, projection, initial, self.batch_first, reverse)
                made.append(every)
                ends.append(last)
            x = torch.cat(made, 2) if self.bidirectional else made[0]
            if layer + 1 < self.layers:
                x = functional.dropout(x, self.dropout, self.train)
        return x, *(torch.stack(each) for each in zip(*ends, strict=True))


def _lstm(x: Tensor, states: Sequence[Tensor], *rest: Any) -> tuple[Tensor, ...]:
    def loop(
        gates: Tensor, weight: Tensor, bias: Tensor, projection: Tensor, initial: Sequence[Tensor], *how: bool
    ) -> Any:
        return torch.ops.modelbuild.lstm(gates, weight, bias, projection, *initial, *how)

    return _Net(*rest).results(x, states, loop, states[0].shape[2] != states[1].shape[2])


def _gru(x: Tensor, state: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    def loop(gates: Tensor, weight: Tensor, bias: Tensor, _: None, initial: Sequence[Tensor], *how: bool) -> Any:
        return torch.ops.modelbuild.gru(gates, weight, bias, *initial, *how)

    return _Net(*rest).results(x, [state], loop)


def _rnn(relu: bool, x: Tensor, state: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    def loop(gates: Tensor, weight: Tensor, bias: Tensor, _: None, initial: Sequence[Tensor], *how: bool) -> Any:
        return torch.ops.modelbuild.rnn(gates, weight, bias, *initial, relu, *how)

    return _Net(*rest).results(x, [state], loop)


_NETS: dict[Any, Callable[..., Any]] = {
    aten.lstm.input: _lstm,
    aten.gru.input: _gru,
    aten.rnn_tanh.input: partial(_rnn, False),
    aten.rnn_relu.input: partial(_rnn, True),
}
