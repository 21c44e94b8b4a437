"""A module that was compiled elsewhere, as one operator of a program: `modelbuild::compiled_part`.

The operator has an implementation for shapes only. Its argument `interface` is the JSON of `PartInterface`
(model/documents.py). Steps whose programs may contain it name this module as a plug-in.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from modelbuild.errors import did_you_mean
from modelbuild.step import StepError

if TYPE_CHECKING:
    from modelbuild_rules.model.documents import PartInterface

_LIBRARY = torch.library.Library("modelbuild", "DEF")
_LIBRARY.define("compiled_part(Tensor[] inputs, str interface) -> Tensor[]")


@torch.library.register_fake("modelbuild::compiled_part", lib=_LIBRARY)
def _shapes(inputs: Sequence[torch.Tensor], interface: str) -> list[torch.Tensor]:
    declared: PartInterface = json.loads(interface)
    sizes: dict[int | str, Any] = {}
    for tensor, each in zip(inputs, declared["inputs"], strict=True):
        sizes |= {name: size for name, size in zip(each["shape"], tensor.shape, strict=True) if isinstance(name, str)}
    return [
        inputs[0].new_empty([sizes.get(size, size) for size in each["shape"]], dtype=getattr(torch, each["dtype"]))
        for each in declared["outputs"]
    ]


class CompiledPart(nn.Module):
    """The module of an interface. It returns its only output, or a tuple of all outputs."""

    def __init__(self, interface: PartInterface) -> None:
        super().__init__()
        self._interface = interface
        self._text = json.dumps(interface, sort_keys=True, separators=(",", ":"))

    def forward(self, *given: Any, **named: Any) -> Any:
        """Check the arguments against the interface, and return the operator's results. Raises StepError."""
        inputs = self._in_order(given, named)
        for tensor, declared in zip(inputs, self._interface["inputs"], strict=True):
            if problem := _problem(tensor, declared):
                raise StepError(f"{self._interface['name']}: input '{declared['name']}' {problem}")
        outputs = torch.ops.modelbuild.compiled_part([tensor.contiguous() for tensor in inputs], self._text)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _in_order(self, given: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        names = [each["name"] for each in self._interface["inputs"]]
        values = {**dict(zip(names, given, strict=False)), **named}
        if len(given) + len(named) != len(names) or values.keys() != set(names):
            count = len(given) + len(named)
            raise StepError(
                f"{self._interface['name']} is called with {count} argument{'s' * (count != 1)}"
                f"{''.join(f', {name}' for name in named)}; expected {', '.join(names)}"
            )
        return [values[name] for name in names]


def _problem(value: Any, declared: Mapping[str, Any]) -> str:
    """Return how a value differs from a declared input, as text; '' if it does not."""
    wanted = f"{declared['dtype']}[{', '.join(map(str, declared['shape']))}]"
    if not isinstance(value, torch.Tensor):
        return f"is a {type(value).__name__}; expected {wanted}"
    found = f"{str(value.dtype).removeprefix('torch.')}[{', '.join(map(str, value.shape))}]"
    fits = value.dim() == len(declared["shape"]) and all(
        isinstance(size, str) or bool(actual == size)
        for size, actual in zip(declared["shape"], value.shape, strict=True)
    )
    return "" if fits and value.dtype == getattr(torch, declared["dtype"]) else f"is {found}; expected {wanted}"


def replace_submodules(module: nn.Module, interfaces: Mapping[str, PartInterface]) -> nn.Module:
    """Replace submodules, by name, with the modules of interfaces. Return the module. Raises StepError for a name that
    the module lacks."""
    for name, interface in interfaces.items():
        known = [each for each, _ in module.named_modules() if each]
        if name not in known:
            raise StepError(f"engines: the module has no submodule '{name}'{did_you_mean(name, known)}")
        parent, _, own = name.rpartition(".")
        setattr(module.get_submodule(parent), own, CompiledPart(interface))
    return module
