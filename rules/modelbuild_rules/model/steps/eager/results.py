"""Results of a module in plain containers, and their names.

Private names used, checked on torch 2.14.0: torch.utils._pytree (SUPPORTED_NODES and its entries, the types of keys).
None is patched.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree


def plain(value: Any) -> Any:
    """Return a module's result with every container replaced by a dictionary, list or tuple.

    Dataclasses, named tuples, mappings and containers registered with torch's pytrees become dictionaries by field or
    key; None in a dataclass is omitted.
    """
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: plain(each) for name, each in zip(value._fields, value, strict=True)}
    if isinstance(value, (list, tuple)):
        items = [plain(each) for each in value]
        return items if isinstance(value, list) else tuple(items)
    if type(value) in pytree.SUPPORTED_NODES:
        return _registered(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {name: plain(each) for name, each in fields.items() if each is not None}
    if (cache := _cache(value)) is not None:
        return cache
    return value


def _cache(value: Any) -> Any:
    """Return the tensors of a cache of transformers, which registers its caches only on request; None for any other
    object.

    A cache of keys and values becomes two lists. A cache with other states of layers, such as a convolution's or a
    recurrence's, becomes a list of a dictionary for each layer. A cache of two halves becomes a dictionary of both.
    """
    halves = {name: getattr(value, name, None) for name in ("self_attention_cache", "cross_attention_cache")}
    if None not in halves.values():
        return {name: plain(half) for name, half in halves.items()}
    layers = getattr(value, "layers", None)
    if not isinstance(layers, list) or not layers:
        return None
    found = [_states(each) for each in layers]
    if all(set(each) == {"keys", "values"} for each in found):
        return {"key_cache": [each["keys"] for each in found], "value_cache": [each["values"] for each in found]}
    return {"layers": found} if any(found) else None


def _states(layer: Any) -> dict[str, Any]:
    """Return the tensors of a cache's layer by name, and by number if a layer has several states of a name."""
    states: dict[str, Any] = {}
    for name in ("keys", "values", "conv_states", "recurrent_states"):
        state = getattr(layer, name, None)
        if isinstance(state, torch.Tensor):
            states[name] = state
        elif isinstance(state, dict):
            states |= {f"{name}.{key}": each for key, each in state.items() if isinstance(each, torch.Tensor)}
    return states


def _registered(value: Any) -> Any:
    node = pytree.SUPPORTED_NODES[type(value)]
    if node.flatten_with_keys_fn is None:
        children, _ = node.flatten_fn(value)
        return [plain(each) for each in children]
    pairs, _ = node.flatten_with_keys_fn(value)
    return {_key(key): plain(each) for key, each in pairs}


def _key(key: Any) -> str:
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def named_leaves(returned: Any) -> Iterator[tuple[str, Any]]:
    """Yield each value in plain containers with its name: keys and positions, as `hidden.0`.

    Parts of an outermost tuple or list are called output0, output1, ...; a value outside containers is `output`.
    """
    if isinstance(returned, dict):
        for key, each in returned.items():
            yield from _below(each, str(key))
    elif isinstance(returned, (list, tuple)):
        for index, each in enumerate(returned):
            yield from _below(each, f"output{index}")
    else:
        yield "output", returned


def _below(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _below(each, f"{path}.{key}")
    elif isinstance(value, (list, tuple)):
        for index, each in enumerate(value):
            yield from _below(each, f"{path}.{index}")
    else:
        yield path, value
