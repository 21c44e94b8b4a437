"""Export numbers that modules keep in buffers as constants.

torch.export does not look into buffers. So for torch.export a size computed from a buffer, such as the padding in
transformers' EnCodec, depends on values, even if the module never changes the buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

Numbers = Mapping[nn.Module, Mapping[str, int]]


def constant_numbers(module: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Numbers:
    """Return the integers in buffers that no state dict contains and that a call with the arguments does not change, by
    module and name. Calls the module once if there are any."""
    buffers = [
        (each, name, buffer)
        for each in module.modules()
        for name, buffer in each.named_buffers(recurse=False)
        if buffer.dim() == 0 and buffer.dtype in (torch.int32, torch.int64) and name not in each.state_dict()
    ]
    if not buffers:
        return {}
    before = [buffer._version for _, _, buffer in buffers]
    with torch.no_grad():
        module(*args, **kwargs)
    found: dict[nn.Module, dict[str, int]] = {}
    for (each, name, buffer), version in zip(buffers, before, strict=True):
        if getattr(each, name) is buffer and buffer._version == version:
            found.setdefault(each, {})[name] = int(buffer)
    return found


@contextmanager
def as_constants(numbers: Numbers) -> Iterator[None]:
    """Replace the buffers with new tensors while their module's forward runs; torch.export treats the new tensors as
    constants."""
    hooks = [hook for module, values in numbers.items() for hook in _hooks(module, values)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _hooks(module: nn.Module, values: Mapping[str, int]) -> tuple[Any, Any]:
    kept = {name: getattr(module, name) for name in values}

    def replace(module: nn.Module, args: Any) -> None:
        for name, value in values.items():
            setattr(module, name, torch.tensor(value, dtype=kept[name].dtype))

    def restore(module: nn.Module, args: Any, result: Any) -> None:
        for name, buffer in kept.items():
            setattr(module, name, buffer)

    return module.register_forward_pre_hook(replace), module.register_forward_hook(restore, always_call=True)
