"""Decide how the weights of a partition's convolutions are stored, so that its kernels compute and read less. No
decision depends on the values of weights.

Private names used, checked on torch 2.14.0 and executorch 1.5.1: ExportedProgram._state_dict and _constants,
executorch.exir.dialects._ops.ops.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from operator import getitem
from typing import Any

import torch
from executorch.exir.dialects._ops import ops
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node

from modelbuild_rules.backend_api.steps.aten import aten_operator
from modelbuild_rules.backend_api.steps.recipes import Recipe
from modelbuild_rules.backends.cuda.steps.constants import evaluated

TOGETHER = 4
"""The number of channels that a kernel reads at once; 16 bytes of float32."""
FEW, STEP = range(3, 16), 64
"""Numbers of channels that are padded to a multiple of TOGETHER if all their taps are more than one step of a kernel's
loop reads. On an NVIDIA H200, a convolution of 7 x 7 taps of three channels then takes 0.3 to 0.8 of the time, and a
convolution of 3 x 3 taps 1.1 to 1.5 (eight pictures; float32, TF32 and float16)."""

aten = torch.ops.aten


def change_weights(program: ExportedProgram) -> dict[str, Recipe]:
    """Change an edge program in place, whose convolutions then

    - include the batch normalization that follows them, by the formula of torch.nn.utils.fusion;
    - have additional channels of zeros if they have few, three for most images, so that their kernels read four values
      at once: the copy of the image to channels-last writes them, and the stored weight has them;
    - have weights that are stored channels-last; depthwise weights have their channels last.

    Transposed convolutions, weights with other uses, and weights that calls change stay as they are.

    Return the recipes of the changed weights, by name. In the program these are on the device `meta`.
    """
    stored = _Stored(program)
    for node in filter(_forward, list(program.graph.nodes)):
        _fold(node, stored, program)
        weight = node.args[1]
        if weight.meta["val"].dim() < 3 or not stored.is_constant(weight) or not all(map(_reads_weight, weight.users)):
            continue
        more = -weight.meta["val"].shape[1] % TOGETHER if all(map(_has_few_channels, weight.users)) else 0
        for user in list(weight.users) if more else ():
            _add_channels(user, more)
        if more:
            stored.replace(weight, ["with channels", stored[weight], more])
        stored.replace(weight, ["channels last", stored[weight]])
    return stored.recipes


class _Stored:
    """The recipes of a program's parameters, buffers and constants that no call changes, by the nodes of their inputs.

    recipes  those that are not the name of a weight, by name
    """

    def __init__(self, program: ExportedProgram) -> None:
        signature = program.graph_signature
        self._names = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
        self._names.update(signature.inputs_to_lifted_tensor_constants)
        self._changed = set(signature.buffers_to_mutate.values())
        self._homes = (program._state_dict, program._constants)
        self._weights = {name: _layout(tensor) for home in self._homes for name, tensor in home.items()}
        self.recipes: dict[str, Recipe] = {}

    def _home(self, node: Node) -> Iterator[dict[str, Tensor]]:
        return (home for home in self._homes if self._names[node.name] in home)

    def is_constant(self, node: Any) -> bool:
        name = self._names.get(node.name) if isinstance(node, Node) else None
        return name is not None and name not in self._changed and any(self._home(node))

    def __getitem__(self, node: Node) -> Recipe:
        name = self._names[node.name]
        return self.recipes.get(name, name)

    def replace(self, node: Node, recipe: Recipe) -> None:
        name = self._names[node.name]
        tensor = evaluated(recipe, self._weights)
        for home in self._home(node):
            parameter = isinstance(home[name], torch.nn.Parameter)
            home[name] = torch.nn.Parameter(tensor, False) if parameter else tensor
        self.recipes[name] = recipe
        with node.meta["val"].fake_mode:
            node.meta["val"] = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)


def _layout(tensor: Tensor) -> Tensor:
    """Return a tensor without values."""
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def _forward(node: Node) -> bool:
    """Return whether a node is a convolution that is not transposed."""
    return aten_operator(node.target) is aten.convolution.default and not node.args[6]


def _reads_weight(node: Node) -> bool:
    """Return whether a user of a weight is a convolution that applies the weight to another tensor."""
    return _forward(node) and node.args[0] is not node.args[1]


def _fold(convolution: Node, stored: _Stored, program: ExportedProgram) -> None:
    """Fold the batch normalization that follows a convolution into the convolution's weight and into a bias, which
    replaces the normalization's bias."""
    _, weight, bias, *_ = convolution.args
    norm = next(iter(convolution.users)) if len(convolution.users) == 1 else None
    if norm is None or aten_operator(norm.target) is not aten._native_batch_norm_legit_no_training.default:
        return
    x, scale, shift, mean, variance, _, epsilon = norm.args
    alone = all(stored.is_constant(each) and len(each.users) == 1 for each in (weight, shift))
    known = all(each is None or stored.is_constant(each) for each in (bias, scale, mean, variance))
    if x is not convolution or not (alone and known) or any(user.target is not getitem for user in norm.users):
        return
    if any(user.args[1] != 0 for user in norm.users):  # the statistics of a batch
        return
    given = [None if each is None else stored[each] for each in (weight, bias, mean, variance)]
    folded = [*given, epsilon, *(None if each is None else stored[each] for each in (scale, shift))]
    for node, part in ((weight, "weight"), (shift, "bias")):
        stored.replace(node, [f"folded {part}", *folded])
    convolution.args = (*convolution.args[:2], shift, *convolution.args[3:])
    graph = convolution.graph
    for user in list(norm.users):
        user.replace_all_uses_with(convolution)
        program.graph_signature.replace_all_uses(user.name, convolution.name)
        graph.erase_node(user)
    graph.erase_node(norm)


def _has_few_channels(node: Node) -> bool:
    """Return whether a convolution's kernel reads many taps of few channels. Convolutions with disjoint taps become
    products of patches (lowerings/products.py)."""
    _, weight, _, stride, padding, _, _, _, groups = node.args
    _, channels, *kernel = weight.meta["val"].shape
    patches = [*kernel] == [*stride] * (len(kernel) // len(stride)) and not any(padding)
    return len(kernel) == 2 and groups == 1 and channels in FEW and channels * math.prod(kernel) > STEP and not patches


def _add_channels(convolution: Node, more: int) -> None:
    """Add channels of zeros to a convolution's input, [batch, channels, height, width], in its graph."""
    x, *others = convolution.args
    padding = [0, 0, 0, 0, 0, more]
    with convolution.graph.inserting_before(convolution):
        made = convolution.graph.call_function(ops.edge.aten.constant_pad_nd.default, (x, padding, 0.0))
    made.meta = {**x.meta, "val": torch.nn.functional.pad(x.meta["val"], padding)}
    convolution.args = (made, *others)
