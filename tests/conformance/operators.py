"""The kinds of PyTorch's own database of operators, which its tests use.

Of each operator: up to three samples of float32 that differ in kind, one with all tensors but the first as parameters,
one with a dynamic first dimension, and one sample of each of int64, bool and float16. A second call has other values.

Private names used, checked on torch 2.14.0: torch.testing._internal.common_methods_invocations (op_db, and
wrapper_set_seed, which is patched while an operator is called), torch.utils._pytree, and
torch.backends.disable_global_flags, which the import of the first calls.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from tests.conformance.kinds import Call, Kind, of_function

# The types of elements, and the number of samples of each.
SAMPLES = {torch.float32: 3, torch.int64: 1, torch.bool: 1, torch.float16: 1}
# They may return the indices of equal values in any order.
TIED = {"argsort", "kthvalue", "sort", "topk"}
# Their results are memory that nothing wrote.
UNDEFINED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}


@cache
def _database() -> Any:
    """Return the module of the database, whose import takes seconds."""
    # Other tests of this process still set the precision of products.
    with patch("torch.backends.disable_global_flags"):
        from torch.testing._internal import common_methods_invocations

    return common_methods_invocations


@cache
def operators() -> Mapping[str, Any]:
    """Return the entries of the database by name."""
    return {each.full_name: each for each in _database().op_db}


@dataclass(frozen=True)
class _Sample:
    """The arguments of a call: tensors, and a tree of them and of other values."""

    tensors: Call
    leaves: Sequence[Any]
    spec: Any

    @property
    def kind(self) -> Any:
        """Return a value that is equal for samples of one kind."""
        places = [
            (each.dim(), 0 in each.shape, each.dtype) if _is(each) else type(each).__name__ for each in self.leaves
        ]
        return tuple(places), str(self.spec)

    def fits(self, other: _Sample) -> bool:
        """Return whether another sample differs in the values of tensors only."""
        return self.spec == other.spec and all(map(_alike, self.leaves, other.leaves))


def _is(value: Any) -> bool:
    return isinstance(value, Tensor)


def _alike(one: Any, other: Any) -> bool:
    if _is(one):
        return _is(other) and one.shape == other.shape and one.dtype == other.dtype
    return bool(type(one) is type(other) and (one == other or one != one))


def kinds(name: str) -> Iterator[Kind]:
    """Yield the kinds of an operator."""
    entry = operators()[name]
    for dtype, count in SAMPLES.items():
        if dtype not in entry.supported_dtypes("cpu"):
            continue
        first, second = (list(_samples(entry, dtype, seed)) for seed in (0, 1))
        places = list({each.kind: place for place, each in reversed(list(enumerate(first)))}.values())[::-1]
        chosen = [places[number * (len(places) - 1) // max(count - 1, 1)] for number in range(min(count, len(places)))]
        of = str(dtype).removeprefix("torch.")
        for place in chosen:
            other = second[place] if place < len(second) and first[place].fits(second[place]) else _turned(first[place])
            yield from _valid(name, f"{name} {of} {place}", first[place], other)
            if place == chosen[0] and count > 1:
                yield from _parameters(name, f"{name} {of} {place} parameters", first[place], other)
                yield from _dynamic(name, f"{name} {of} {place} dynamic", first[place], other)


def _samples(entry: Any, dtype: torch.dtype, seed: int) -> Iterator[_Sample]:
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)
    for each in entry.sample_inputs("cpu", dtype):
        leaves, spec = pytree.tree_flatten((each.input, each.args, each.kwargs))
        tensors = tuple(leaf.detach() for leaf in leaves if _is(leaf))
        if all(tensor.layout == torch.strided for tensor in tensors):
            yield _Sample(
                tuple(tensor.clone(memory_format=torch.contiguous_format) for tensor in tensors), leaves, spec
            )


def _turned(sample: _Sample) -> _Sample:
    """Return a sample with the values in another order, which keeps indices valid."""
    tensors = tuple(each.flip(0) if each.dim() else each for each in sample.tensors)
    return _Sample(tensors, sample.leaves, sample.spec)


def _function(name: str, sample: _Sample) -> Callable[..., Any]:
    """Return the operator as a function of tensors."""
    entry, leaves, spec = operators()[name], sample.leaves, sample.spec

    def function(*tensors: Tensor) -> Any:
        given = iter(tensors)
        first, args, kwargs = pytree.tree_unflatten([next(given) if _is(each) else each for each in leaves], spec)
        with patch.object(_database(), "wrapper_set_seed", _unseeded):
            return entry.op(first, *args, **kwargs)

    return function


def _unseeded(operator: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call an operator that draws random numbers, without the seed that a test sets before."""
    return operator(*args, **kwargs)


def _valid(
    name: str, title: str, sample: _Sample, *others: _Sample, own: int = 0, dynamic: Any = None
) -> Iterator[Kind]:
    """Yield the kind of a sample, with the calls that eager mode accepts. The last `own` tensors are the module's."""
    function = _function(name, sample)
    calls = [each.tensors for each in (sample, *others)]
    if own:
        calls = [each[:-own] for each in calls]
    make = of_function(function, sample.tensors[len(sample.tensors) - own :])
    results = [(call, _results(make, call, 0)) for call in calls]
    made = [call for call, result in results if result is not None]
    if results[0][1] is None or (dynamic and len(made) < 3):
        return
    again = _results(make, calls[0], 1)
    random = not all(map(_same, results[0][1], again or []))
    yield Kind(title, make, made, dynamic or {}, undefined=random or name in UNDEFINED, tied=name in TIED)


def _results(make: Callable[[], Any], call: Call, seed: int) -> list[Any] | None:
    """Return the results of a call in eager mode; None if it fails."""
    torch.manual_seed(seed)
    try:
        with torch.no_grad():
            return pytree.tree_leaves(make()(*(each.clone() for each in call)))
    except Exception:
        return None


def _same(one: Any, other: Any) -> bool:
    if not _is(one):
        return bool(one == other or one != one)
    if one.layout != torch.strided:
        return True
    return one.shape == other.shape and torch.allclose(one, other, equal_nan=True)


def _parameters(name: str, title: str, *samples: _Sample) -> Iterator[Kind]:
    own = len(samples[0].tensors) - 1
    if own > 0:
        yield from _valid(name, title, *samples, own=own)


def _dynamic(name: str, title: str, first: _Sample, second: _Sample) -> Iterator[Kind]:
    """Yield the kind with a dynamic number of rows: of all tensors with as many as the first one, or of the first one
    alone. Later calls have fewer, and one."""
    sizes = [each.shape[0] if each.dim() else 0 for each in first.tensors]
    if not sizes or sizes[0] < 3:
        return
    for rows in ([number for number, size in enumerate(sizes) if size == sizes[0]], [0]):
        calls = (_Sample(_cut(second.tensors, rows, size), second.leaves, second.spec) for size in (sizes[0] - 1, 1))
        dynamic = {(number, 0): (1, sizes[0]) for number in rows}
        found = list(_valid(name, title, first, second, *calls, dynamic=dynamic))
        if found:
            yield from found
            return


def _cut(tensors: Call, rows: Sequence[int], size: int) -> Call:
    return tuple(each[:size].clone() if number in rows else each for number, each in enumerate(tensors))
