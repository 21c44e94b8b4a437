"""Operators of modelbuild that the partition step puts into programs if ExecuTorch has no suitable kernel.

lstm, gru, rnn   one direction of one layer of a recurrent net, without the products of its inputs
grid_sampler_2d  aten's: ExecuTorch's kernel computes other values for coordinates that are NaN or infinite

`gates` are the products of all inputs with the layer's weights: steps x batch x values, or batch x steps x values if
`batch_first`. Each recurrent operator returns the hidden state at all steps, and the last states. `weight` and `bias`
are the hidden state's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

NAMESPACE = "modelbuild"

_SCHEMAS = {
    "lstm": (
        "(Tensor gates, Tensor weight, Tensor? bias, Tensor? projection, Tensor hidden, Tensor cell, bool batch_first,"
        " bool reverse",
        3,
    ),
    "gru": ("(Tensor gates, Tensor weight, Tensor? bias, Tensor hidden, bool batch_first, bool reverse", 2),
    "grid_sampler_2d": ("(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners", 1),
    "rnn": ("(Tensor gates, Tensor weight, Tensor? bias, Tensor hidden, bool relu, bool batch_first, bool reverse", 2),
}

LOOPS = frozenset(f"{NAMESPACE}.{name}.default" for name in ("lstm", "gru", "rnn"))


@cache
def register() -> None:
    """Register the operators, with implementations for eager mode, and their out variants, which kernels implement."""
    library = torch.library.Library(NAMESPACE, "FRAGMENT")
    _KEPT.append(library)
    for name, (arguments, count) in _SCHEMAS.items():
        results = ", ".join(["Tensor"] * count)
        outs = [f"Tensor({letter}!)" for letter in "abc"[:count]]
        named = ", ".join(f"{out} out{number if count > 1 else ''}" for number, out in enumerate(outs))
        library.define(f"{name}{arguments}) -> ({results})", tags=(torch.Tag.pt2_compliant_tag,))
        library.define(f"{name}.out{arguments}, *, {named}) -> ({', '.join(outs)})")
        library.impl(name, _EAGER[name], "CPU")
        torch.library.register_fake(f"{NAMESPACE}::{name}", _SHAPES[name], lib=library)


_KEPT: list[Any] = []  # registrations end with their library


def _states(gates: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
    """Return results without values: the results of all steps, and the last states."""
    every = gates.new_empty(*gates.shape[:2], states[0].shape[1])
    return every, *(each.new_empty(each.shape) for each in states)


def _lstm_shapes(
    gates: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    projection: Tensor | None,
    hidden: Tensor,
    cell: Tensor,
    *_: bool,
) -> tuple[Tensor, ...]:
    return _states(gates, hidden, cell)


def _shapes(gates: Tensor, weight: Tensor, bias: Tensor | None, hidden: Tensor, *_: bool) -> tuple[Tensor, ...]:
    return _states(gates, hidden)


def _image_shape(x: Tensor, grid: Tensor, *_: Any) -> Tensor:
    return x.new_empty(*x.shape[:2], *grid.shape[1:-1])


def _lstm(
    gates: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    projection: Tensor | None,
    hidden: Tensor,
    cell: Tensor,
    batch_first: bool,
    reverse: bool,
) -> tuple[Tensor, ...]:
    def step(x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        enter, forget, fresh, leave = (x + functional.linear(state[0], weight, bias)).chunk(4, 1)
        cell = forget.sigmoid() * state[1] + enter.sigmoid() * fresh.tanh()
        made = leave.sigmoid() * cell.tanh()
        return made if projection is None else made @ projection.t(), cell

    return _over_steps(step, gates, (hidden, cell), batch_first, reverse)


def _gru(
    gates: Tensor, weight: Tensor, bias: Tensor | None, hidden: Tensor, batch_first: bool, reverse: bool
) -> tuple[Tensor, ...]:
    def step(x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        inputs, states = x.chunk(3, 1), functional.linear(state[0], weight, bias).chunk(3, 1)
        reset, update = ((inputs[part] + states[part]).sigmoid() for part in (0, 1))
        fresh = (inputs[2] + reset * states[2]).tanh()
        return ((state[0] - fresh) * update + fresh,)

    return _over_steps(step, gates, (hidden,), batch_first, reverse)


def _rnn(
    gates: Tensor, weight: Tensor, bias: Tensor | None, hidden: Tensor, relu: bool, batch_first: bool, reverse: bool
) -> tuple[Tensor, ...]:
    def step(x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        made = x + functional.linear(state[0], weight, bias)
        return (made.relu() if relu else made.tanh(),)

    return _over_steps(step, gates, (hidden,), batch_first, reverse)


def _over_steps(
    step: Callable[[Tensor, tuple[Tensor, ...]], tuple[Tensor, ...]],
    gates: Tensor,
    state: tuple[Tensor, ...],
    batch_first: bool,
    reverse: bool,
) -> tuple[Tensor, ...]:
    along = 1 if batch_first else 0
    made = []
    for x in gates.unbind(along)[:: -1 if reverse else 1]:
        state = step(x, state)
        made.append(state[0])
    # A result may not be one of the arguments.
    return torch.stack(made[:: -1 if reverse else 1], along), *(each.clone() for each in state)


_SHAPES: dict[str, Callable[..., Any]] = {
    "lstm": _lstm_shapes,
    "gru": _shapes,
    "rnn": _shapes,
    "grid_sampler_2d": _image_shape,
}
_EAGER: dict[str, Callable[..., Any]] = {
    "lstm": _lstm,
    "gru": _gru,
    "rnn": _rnn,
    "grid_sampler_2d": torch.ops.aten.grid_sampler_2d.default,
}
