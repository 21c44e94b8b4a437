"""Let torch.export find the shapes of composite operators without running their code.

A recurrent net (nn.LSTM, nn.GRU, nn.RNN) is one operator of an exported program, but torch finds the shapes of its
results by computing all of its steps, whose number must be known. torch.cov and torch.corrcoef check values. Here the
shapes follow from the inputs'.

Private names used, checked on torch 2.14.0: torch._ops.OpOverload (py_kernels, _dispatch_cache). The first, a table of
implementations in Python, is changed: torch.export keeps the operator as a node, and runs the table's on fake tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import statically_known_true

aten = torch.ops.aten
_KEYS = (torch._C.DispatchKey.CompositeImplicitAutograd, torch._C.DispatchKey.Autograd)


@contextmanager
def shapes_from_inputs() -> Iterator[None]:
    """Find shapes of the results of these operators without their own code, while the context lasts."""
    known = {operator: dict(operator.py_kernels) for operator in _SHAPES}
    for operator, shapes in _SHAPES.items():
        _replace(operator, {**known[operator], **dict.fromkeys(_KEYS, shapes)})
    try:
        yield
    finally:
        for operator in _SHAPES:
            _replace(operator, known[operator])


def _replace(operator: Any, kernels: Mapping[Any, Any]) -> None:
    operator.py_kernels.clear()
    operator.py_kernels.update(kernels)
    operator._dispatch_cache.clear()


def _states(x: Tensor, given: Any, *rest: Any) -> tuple[Tensor, ...]:
    """Return a net's results without values: the results of all steps, and the last states."""
    states = given if isinstance(given, (list, tuple)) else [given]
    *_, bidirectional, _ = rest
    features = states[0].shape[2] * (2 if bidirectional else 1)
    return x.new_empty(*x.shape[:2], features), *(each.new_empty(each.shape) for each in states)


def _covariances(x: Tensor, **_: Any) -> Tensor:
    """Return the result of cov or corrcoef without values: a row and a column for each row of `x`."""
    kind = x.dtype if x.is_floating_point() or x.is_complex() else torch.get_default_dtype()
    rows = x.shape[0] if x.dim() > 1 else 1
    return x.new_empty([] if statically_known_true(rows == 1) else [rows, rows], dtype=kind)


_SHAPES: Mapping[Any, Callable[..., Any]] = {
    **dict.fromkeys((aten.lstm.input, aten.gru.input, aten.rnn_tanh.input, aten.rnn_relu.input), _states),
    aten.corrcoef.default: _covariances,
    aten.cov.default: _covariances,
}
