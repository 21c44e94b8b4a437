"""Replace a partition's weights by fake tensors that appear to be on the GPU, and find them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from modelbuild_rules.backend_api.steps.recipes import Recipe
from modelbuild_rules.backends.cuda.steps.constants import layout


@dataclass(frozen=True)
class Constant:
    """A constant of a library.

    name      in the library
    original  in the program
    tensor    a tensor of its layout; without a recipe, its values
    on_gpu    true if the library expects it on the GPU
    recipe    how it derives from the weights of the partition; None for a constant that Inductor made
    """

    name: str
    original: str
    tensor: torch.Tensor
    on_gpu: bool
    recipe: Recipe | None = None


class Weights:
    """The weights of a program, by their names or by the fake tensors that replace them.

    recipes  how weights that are not stored as they are derive from the partition's weights
    layouts  tensors with the layouts of the weights, by name
    faked    fake tensors, and the name of each
    """

    def __init__(
        self,
        recipes: Mapping[str, Recipe],
        layouts: Mapping[str, torch.Tensor],
        faked: Sequence[tuple[torch.Tensor, str]],
    ) -> None:
        self._recipes = recipes
        self._layouts = layouts
        self._faked = faked

    def constant(self, name: str, original: str, compiled: torch.Tensor) -> Constant:
        """Return a constant of a library. `compiled` is Inductor's tensor, `original` its name in the program; Inductor
        invents names for constants that are not weights of the program. Raises ValueError for an unknown fake tensor,
        and for a weight with another layout than Inductor's tensor."""
        weight = next((own for fake, own in self._faked if fake is compiled), original)
        if weight not in self._layouts:
            if isinstance(compiled, FakeTensor):
                raise ValueError(f"the values of constant {original} are unknown")
            return Constant(name, original, compiled, compiled.is_cuda)
        expected = layout(self._layouts[weight])
        if layout(compiled) != expected:
            raise ValueError(f"constant {name} was compiled as {layout(compiled)}, and is stored as {expected}")
        return Constant(name, original, self._layouts[weight], compiled.is_cuda, self._recipes.get(weight, weight))


def move(program: ExportedProgram, device: str, recipes: Mapping[str, Recipe]) -> Weights:
    """Move a program in place to a device that need not exist. Return its weights; `recipes` has those that are not
    stored as they are.

    Does the same as torch.export.passes.move_to_device_pass, but makes tensors fake.
    """
    mode = detect_fake_mode([node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"])
    if mode is None:
        raise ValueError("the program has no inputs with fake values")
    layouts = {**program.state_dict, **program.constants}
    moved: dict[int, torch.Tensor] = {}
    faked: list[tuple[torch.Tensor, str]] = []

    def fake(name: str, tensor: torch.Tensor) -> torch.Tensor:
        """Return the fake tensor for a tensor; equal tensors have the same fake tensor."""
        if id(tensor) not in moved:
            with mode:
                made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype).to(device)
            moved[id(tensor)] = torch.nn.Parameter(made, False) if isinstance(tensor, torch.nn.Parameter) else made
            faked.append((moved[id(tensor)], name))
        return moved[id(tensor)]

    for home in (program._state_dict, program._constants):
        home.update({name: fake(name, tensor) for name, tensor in home.items()})
    _move_graph(program, device)
    program._example_inputs = None
    program.validate()
    return Weights(recipes, layouts, faked)


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
