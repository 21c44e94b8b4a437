"""Let torch.export keep the length of a recurrent net's sequences dynamic.

A net (nn.LSTM, nn.GRU, nn.RNN) is one operator of an exported program, but torch finds the shapes of its results by
computing all of its steps, of which there must be a known number. Here the shapes follow from the inputs'.

Private names used, checked on torch 2.14.0: torch._ops.OpOverload (py_kernels, _dispatch_cache). The first, a table of
implementations in Python, is changed: torch.export keeps the operator as a node, and runs the table's on fake tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten
_NETS = (aten.lstm.input, aten.gru.input, aten.rnn_tanh.input, aten.rnn_relu.input)
_KEYS = (torch._C.DispatchKey.CompositeImplicitAutograd, torch._C.DispatchKey.Autograd)


@contextmanager
def shapes_without_steps() -> Iterator[None]:
    """Find shapes of recurrent nets' results without computing their steps, while the context lasts."""
    known = {net: dict(net.py_kernels) for net in _NETS}
    for net in _NETS:
        _replace(net, {**known[net], **dict.fromkeys(_KEYS, _results)})
    try:
        yield
    finally:
        for net in _NETS:
            _replace(net, known[net])


def _replace(net: Any, kernels: Mapping[Any, Any]) -> None:
    net.py_kernels.clear()
    net.py_kernels.update(kernels)
    net._dispatch_cache.clear()


def _results(x: Tensor, given: Any, *rest: Any) -> tuple[Tensor, ...]:
    """Return results without values: of all steps, and the last states."""
    states = given if isinstance(given, (list, tuple)) else [given]
    *_, bidirectional, _ = rest
    features = states[0].shape[2] * (2 if bidirectional else 1)
    return x.new_empty(*x.shape[:2], features), *(each.new_empty(each.shape) for each in states)
