"""A partition's weights on the CPU, behind fake tensors that say they are on the GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree


class Weights:
    """Tensors on the CPU, to be found by their names in the program or by the fake tensors that stand for them."""

    def __init__(self, named: Mapping[str, torch.Tensor], faked: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
        self._named = named
        self._faked = faked

    def find(self, name: str, stored: torch.Tensor) -> torch.Tensor:
        """The tensor itself. `stored` is what Inductor has under a name; it makes names of its own for constants that
        the program does not hold as buffers. Raises ValueError for a fake tensor of which nothing is known."""
        known = next((real for fake, real in self._faked if fake is stored), None)
        found = self._named.get(name, stored) if known is None else known
        if isinstance(found, FakeTensor):
            raise ValueError(f"the values of constant {name} are not known")
        return found


def move(program: ExportedProgram, device: str) -> Weights:
    """Move a program to a device that need not be there, in place. Returns its tensors as they were.

    As torch.export.passes.move_to_device_pass does it, but that tensors become fake ones.
    """
    mode = detect_fake_mode([node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"])
    if mode is None:
        raise ValueError("the program has no inputs with fake values")
    real = {**program.state_dict, **program.constants}
    moved: dict[int, torch.Tensor] = {}
    faked: list[tuple[torch.Tensor, torch.Tensor]] = []

    def fake(tensor: torch.Tensor) -> torch.Tensor:
        """Equal tensors stay one and the same."""
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


def blob(constants: Mapping[str, torch.Tensor], original: Callable[[str], torch.Tensor]) -> bytearray:
    """The bytes of a library's constants (a name's fake or real tensor) one after the other, as AOTInductor lays them.

    `original` gives the tensor on the CPU. Constants that are all on the GPU are packed; others are aligned to 64.
    """
    packed = all(tensor.is_cuda for tensor in constants.values())
    made = bytearray()
    for name, tensor in constants.items():
        value = original(name)
        if (value.stride(), value.storage_offset()) != (tensor.stride(), tensor.storage_offset()):
            raise ValueError(f"constant {name} does not lie in memory as it was compiled")
        storage = value.untyped_storage()
        made += memoryview(torch.empty(0, dtype=torch.uint8).set_(storage).numpy()) if storage.nbytes() else b""
        if len(storage) != tensor.untyped_storage().nbytes():
            raise ValueError(f"constant {name} has {len(storage)} bytes; compiled for another number")
        if not packed:
            made += bytes(-len(made) % 64)
    return made
