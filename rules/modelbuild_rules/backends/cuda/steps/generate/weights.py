"""Keep a partition's weights on the CPU, behind fake tensors that appear to be on the GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree


class Weights:
    """Tensors on the CPU, by their names in the program or by the fake tensors that replace them."""

    def __init__(self, named: Mapping[str, torch.Tensor], faked: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
        self._named = named
        self._faked = faked

    def find(self, name: str, stored: torch.Tensor) -> torch.Tensor:
        """Return the CPU tensor of a name. `stored` is Inductor's tensor of this name; Inductor invents names for
        constants that are not buffers of the program. Raises ValueError for an unknown fake tensor."""
        known = next((real for fake, real in self._faked if fake is stored), None)
        found = self._named.get(name, stored) if known is None else known
        if isinstance(found, FakeTensor):
            raise ValueError(f"the values of constant {name} are unknown")
        return found


def move(program: ExportedProgram, device: str) -> Weights:
    """Move a program in place to a device that need not exist. Return its original tensors.

    Does the same as torch.export.passes.move_to_device_pass, but makes tensors fake.
    """
    mode = detect_fake_mode([node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"])
    if mode is None:
        raise ValueError("the program has no inputs with fake values")
    real = {**program.state_dict, **program.constants}
    moved: dict[int, torch.Tensor] = {}
    faked: list[tuple[torch.Tensor, torch.Tensor]] = []

    def fake(tensor: torch.Tensor) -> torch.Tensor:
        """Return the fake tensor for a tensor; equal tensors have the same fake tensor."""
        if id(tensor) not in moved:
            with mode:
                made = mode.from_tensor(tensor.detach(), static_shapes=True).to(device)
            moved[id(tensor)] = torch.nn.Parameter(made, False) if isinstance(tensor, torch.nn.Parameter) else made
            faked.append((moved[id(tensor)], tensor))
        return moved[id(tensor)]

    for home in (program._state_dict, program._constants):
        home.update({name: fake(tensor) for name, tensor in home.items()})
    _move_graph(program, device)
    program._example_inputs = None
    program.validate()
    return Weights(real, faked)


def _move_graph(program: ExportedProgram, device: str) -> None:
    def moved(value: Any) -> Any:
        if isinstance(value, FakeTensor):
            with value.fake_mode:
                return value.to(device)
        return value

    for module in program.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
            if "device" in node.kwargs:
                node.kwargs = {**node.kwargs, "device": torch.device(device)}
            if node.target is torch.ops.aten.to.device:
                node.update_arg(1, device)
            node.meta["val"] = pytree.tree_map(moved, node.meta.get("val"))


@dataclass(frozen=True)
class Constant:
    """A constant of a library.

    name      in the library
    original  in the program
    tensor    its values, on the CPU
    on_gpu    true if the library expects it on the GPU
    """

    name: str
    original: str
    tensor: torch.Tensor
    on_gpu: bool

    def storage(self) -> bytes:
        """Return the bytes of the tensor's storage."""
        storage = self.tensor.untyped_storage()
        return bytes(torch.empty(0, dtype=torch.uint8).set_(storage).numpy()) if storage.nbytes() else b""


def constant(name: str, original: str, compiled: torch.Tensor, value: torch.Tensor) -> Constant:
    """Return a constant. `compiled` is the fake or real tensor for which it was compiled, `value` the tensor on the
    CPU. Raises ValueError if their layouts differ."""
    if (value.stride(), value.storage_offset()) != (compiled.stride(), compiled.storage_offset()):
        raise ValueError(f"constant {name} has other strides than when it was compiled")
    size = value.untyped_storage().nbytes()
    if size != compiled.untyped_storage().nbytes():
        raise ValueError(f"constant {name} has {size} bytes, not the number that it was compiled for")
    return Constant(name, original, value, compiled.is_cuda)
